// Requests to the server. An answer that is no document is a `Refusal` with what happened, what to do, and the status.

import { get } from "./store.js";

const TIMEOUT_MS = 20000; // a server that is frozen does not close its connections

export class Refusal extends Error {
  constructor(error, hint, status) {
    super(error);
    this.hint = hint;
    this.status = status;
  }
}

export async function read(path) {
  return answer(await ask(path, { headers: { Accept: "application/json" } }));
}

export async function send(path, body) {
  const headers = { "Content-Type": "application/json", "X-Pliant-CSRF": get().config.csrf };
  return answer(await ask(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

export function jobPath(id, what = "", options = {}) {
  const given = Object.entries(options).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given).toString();
  return `api/jobs/${encodeURIComponent(id)}${what ? `/${what}` : ""}${query ? `?${query}` : ""}`;
}

async function ask(path, options) {
  try {
    return await fetch(path, { credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS), ...options });
  } catch {
    throw new Refusal("the dashboard's server does not answer", "check that `pliant dashboard` is still running", 0);
  }
}

async function answer(response) {
  let found = {};
  try {
    found = response.status === 204 ? {} : await response.json();
  } catch {
    found = { error: `the server answered with status ${response.status} and no document` };
  }
  if (!response.ok) throw new Refusal(found.error ?? `status ${response.status}`, found.hint ?? "", response.status);
  return found;
}
