// The tab's one stream of server-sent events, and how its messages change the store.
//
// A stream is opened for what is looked at, and another one when something else is looked at. A connection that was lost
// is opened again from the number of the last event and from the last line of output; documents arrive whole again. What is shown stays meanwhile,
// and the page says how old it is.

import { jobPath, read } from "./api.js";
import { get, noJob, set, startClock } from "./store.js";

const SILENCE_S = 15; // the server is heard every five seconds
const MAX_LINES = 5000; // of output that the page keeps
const RETRY_S = [0.5, 1, 2, 4, 8];
const HIDDEN_S = 10; // a browser has six connections to a server: tabs that nobody sees give theirs back

const held = { source: null, query: "", wanted: null, tries: 0, retry: 0, continues: false, hidden: 0 };

export function follow(wanted) {
  held.wanted = wanted;
  const query = queryOf(wanted);
  if (get().connection.state === "embedded" || (query === held.query && held.source)) return;
  if (wanted.job !== undefined && get().job.id !== wanted.job) set({ job: noJob(wanted.job) });
  held.query = query;
  open();
}

function queryOf(wanted) {
  if (wanted.job === undefined) return new URLSearchParams(wanted).toString();
  const { job, log } = wanted;
  const known = get().config?.topics; // that this server serves
  const topics = wanted.topics.filter((topic) => topic === "events" || topic === "job" || (known ? known.includes(topic) : topic !== "series"));
  return new URLSearchParams({ job, topics: topics.join(","), ...(log ? { log } : {}) }).toString();
}

function address() {
  const { job } = get();
  const { wanted } = held;
  const after = {};
  if (wanted.job !== undefined && wanted.topics.includes("events") && job.lastEvent) after.events_after = job.lastEvent;
  held.continues = Boolean(wanted.log && job.log && job.log.node === wanted.log && job.log.after);
  if (held.continues) after.log_after = job.log.after;
  const more = new URLSearchParams(after).toString();
  return `api/stream?${held.query}${more ? `&${more}` : ""}`;
}

function open() {
  close();
  const source = new EventSource(address());
  held.source = source;
  const on = (type, take) =>
    source.addEventListener(type, (message) => {
      if (held.source !== source) return;
      heard();
      take(JSON.parse(message.data || "{}"));
    });
  source.onopen = () => held.source === source && heard();
  source.onerror = () => held.source === source && lost();
  on("beat", ({ now }) => now && set({ skew: now - Date.now() / 1000 }));
  on("doc", ({ topic, doc }) => store(topic, doc));
  on("patch", ({ topic, patch }) => {
    const before = documentOf(topic);
    if (before) store(topic, merged(before, patch));
  });
  on("events", ({ events, after }) => {
    const { job } = get();
    const fresh = events.filter(({ number }) => number > job.lastEvent);
    const lastEvent = Math.max(job.lastEvent, after ?? 0, ...fresh.slice(-1).map(({ number }) => number));
    set({ job: { ...job, events: job.events.concat(fresh), lastEvent } });
  });
  on("series", ({ series }) => {
    const before = documentOf("series");
    if (before) store("series", extended(before, series));
  });
  on("log", ({ node, lines, after, first, before: cursor, at_start: atStart }) => {
    const { job, problems } = get();
    const fresh = !job.log || job.log.node !== node || (first && !held.continues);
    const before = fresh ? { node, lines: [], start: 0, before: cursor, at_start: atStart } : job.log;
    if (problems[`log:${node}`]) set({ problems: without(problems, `log:${node}`) });
    const all = before.lines.concat(lines);
    const dropped = Math.max(0, all.length - MAX_LINES);
    set({ job: { ...job, log: { ...before, node, after, lines: dropped ? all.slice(dropped) : all, start: before.start + dropped } } });
  });
  on("problem", ({ topic, error, hint }) => set({ problems: { ...get().problems, [topic]: { error, hint } } }));
  on("gone", ({ error }) => {
    set({ job: { ...get().job, gone: error || "the job was removed" } });
    close();
  });
  on("bye", () => lost());
}

function close() {
  clearTimeout(held.retry);
  if (held.source) held.source.close();
  held.source = null;
}

function heard() {
  const time = Date.now() / 1000;
  held.tries = 0;
  const { connection } = get();
  if (connection.state !== "live" || time - connection.heard > 1) {
    set({ connection: { state: "live", since: connection.state === "live" ? connection.since : time, heard: time } });
  }
}

// Try again, and again: nobody has to reload the page. A browser's own attempt would not know what has arrived on another stream.
async function lost() {
  close();
  const { connection } = get();
  set({ connection: { ...connection, state: "lost", since: connection.heard || Date.now() / 1000 } });
  const delay = RETRY_S[Math.min(held.tries, RETRY_S.length - 1)];
  held.tries += 1;
  clearTimeout(held.retry);
  held.retry = setTimeout(reopen, delay * 1000);
}

async function reopen() {
  try {
    const config = await read("api/config"); // tells why, which an EventSource does not
    set({ config, error: null, skew: config.now - Date.now() / 1000 });
  } catch (problem) {
    if (held.wanted === null) set({ error: { error: problem.message, hint: problem.hint, status: problem.status } });
    if (problem.status === 401) set({ error: { error: problem.message, hint: problem.hint, status: 401 } });
    else lost();
    return;
  }
  if (held.wanted && !(await isMissing(held.wanted.job))) open();
}

// A stream that is refused does not say why. A job that is not there may appear: it is asked for again, at leisure.
async function isMissing(id) {
  if (id === undefined || get().job.docs.job) return false;
  try {
    await read(jobPath(id));
    return false;
  } catch (problem) {
    if (problem.status !== 404) return false;
    const time = Date.now() / 1000;
    set({ problems: { ...get().problems, job: { error: problem.message, hint: problem.hint } }, connection: { state: "live", since: time, heard: time } });
    clearTimeout(held.retry);
    held.retry = setTimeout(reopen, RETRY_S[RETRY_S.length - 1] * 1000);
    return true;
  }
}

function documentOf(topic) {
  const state = get();
  return topic === "jobs" || topic === "cluster" ? state[topic] : state.job.docs[topic];
}

function store(topic, doc) {
  const state = get();
  const problems = without(state.problems, topic);
  if (topic === "jobs" || topic === "cluster") set({ [topic]: doc, problems });
  else set({ job: { ...state.job, docs: { ...state.job.docs, [topic]: doc } }, problems });
}

function without(problems, topic) {
  const { [topic]: _, ...others } = problems;
  return others;
}

// JSON merge patch (RFC 7396).
export function merged(target, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const result = target !== null && typeof target === "object" && !Array.isArray(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (key === "__proto__") continue; // a stranger's name, not a key of ours
    if (value === null) delete result[key];
    else result[key] = merged(result[key], value);
  }
  return result;
}

// New points of curves: those that they have from the first of the new ones on are replaced.
function extended(before, fresh) {
  const result = { ...before, ...fresh };
  for (const name of ["records_per_second", "steps_per_second", "workers"]) result[name] = joined(before[name], fresh[name]);
  result.metrics = { ...before.metrics };
  for (const [name, curve] of Object.entries(fresh.metrics ?? {})) result.metrics[name] = joined(before.metrics?.[name], curve);
  result.nodes = { ...before.nodes };
  for (const [name, node] of Object.entries(fresh.nodes ?? {})) {
    const had = before.nodes?.[name];
    result.nodes[name] = { ...node, cpu: joined(had?.cpu, node.cpu), memory_mb: joined(had?.memory_mb, node.memory_mb) };
  }
  return result;
}

function joined(before, fresh) {
  if (!fresh?.time?.length) return before ?? fresh;
  if (!before?.time?.length) return fresh;
  const kept = before.time.findIndex((time) => time >= fresh.time[0]);
  return Object.fromEntries(Object.keys(fresh).map((name) => [name, (kept < 0 ? before[name] : before[name].slice(0, kept)).concat(fresh[name])]));
}

// What is fetched once, and kept with the job.
export async function fetchDocument(topic, path) {
  const { id } = get().job;
  try {
    const doc = await read(path);
    if (get().job.id === id) store(topic, doc);
  } catch (problem) {
    if (get().job.id === id) set({ problems: { ...get().problems, [topic]: { error: problem.message, hint: problem.hint } } });
  }
}

export async function start() {
  const embedded = document.getElementById("pliant-documents");
  if (embedded) return startEmbedded(JSON.parse(embedded.textContent));
  startClock(watch);
  document.addEventListener("visibilitychange", rest);
  try {
    const config = await read("api/config");
    set({ config, skew: config.now - Date.now() / 1000 });
  } catch (problem) {
    set({ error: { error: problem.message, hint: problem.hint, status: problem.status } });
    if (problem.status !== 401) lost();
  }
  return undefined;
}

function startEmbedded({ version, generated_at: since, job: id, config, documents }) {
  const { events, logs = {}, ...docs } = documents;
  const list = events?.events ?? [];
  set({
    config: { ...config, version, job: id, allow_control: false },
    connection: { state: "embedded", since, heard: since },
    job: { ...noJob(id), docs: { ...docs, logs }, events: list, lastEvent: list.length ? list[list.length - 1].number : 0 },
  });
}

function rest() {
  clearTimeout(held.hidden);
  if (document.visibilityState === "hidden") {
    held.hidden = setTimeout(() => {
      close();
      set({ connection: { ...get().connection, state: "paused" } });
    }, HIDDEN_S * 1000);
  } else if (!held.source && held.wanted && get().connection.state === "paused") {
    set({ connection: { ...get().connection, state: "connecting" } });
    open();
  }
}

function watch() {
  const { connection } = get();
  if (connection.state === "live" && Date.now() / 1000 - connection.heard > SILENCE_S) lost();
}
