// What the page knows, in one place: a value that is replaced and never changed, and components that follow parts of it.

import { useEffect, useState } from "./html.js";

const initial = {
  config: null, // who serves this page and what it allows
  error: null, // the page cannot work at all: {error, hint, status}
  connection: { state: "connecting", since: 0, heard: 0 }, // connecting, live, lost, paused; embedded: in a report
  skew: 0, // seconds that the server's clock is ahead of the browser's
  jobs: null, // the documents, as the server sent them last; null: not yet
  cluster: null,
  job: noJob(""), // that is looked at
  problems: {}, // by topic: why it cannot be read now
};

export function noJob(id) {
  return { id, docs: {}, events: [], lastEvent: 0, log: null, gone: "" };
}

const held = { state: initial };
const followers = new Set();

export function get() {
  return held.state;
}

export function set(change) {
  held.state = { ...held.state, ...(typeof change === "function" ? change(held.state) : change) };
  for (const follower of [...followers]) follower();
}

export function useStore(select) {
  const [value, setValue] = useState(() => select(held.state));
  useEffect(() => {
    const follow = () => setValue(() => select(held.state));
    followers.add(follow);
    follow();
    return () => followers.delete(follow);
  }, []);
  return value;
}

// --- time

export function now() {
  const { connection, skew } = held.state;
  return connection.state === "embedded" ? connection.since : Date.now() / 1000 + skew;
}

const clocks = new Set();

// The time, once a second: for ages and for what is left.
export function useNow() {
  const [value, setValue] = useState(now);
  useEffect(() => {
    const clock = () => setValue(now());
    clocks.add(clock);
    return () => clocks.delete(clock);
  }, []);
  return value;
}

export function startClock(tick) {
  setInterval(() => {
    tick();
    for (const clock of [...clocks]) clock();
  }, 1000);
}
