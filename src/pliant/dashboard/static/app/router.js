// The view is in the address: `#/jobs`, `#/cluster`, `#/jobs/<id>/<tab>`; so links can be sent, and back goes back.

import { useEffect, useState } from "./html.js";

export const JOB_TABS = ["overview", "nodes", "data", "servers", "decisions", "events", "logs", "spec"];

export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [view = "jobs", id = "", tab = "overview"] = path.split("/").map(decode);
  const options = Object.fromEntries(new URLSearchParams(query));
  if (view === "jobs" && id) return { view: "job", id, tab: JOB_TABS.includes(tab) ? tab : "overview", options };
  return { view: view === "cluster" ? "cluster" : "jobs", id: "", tab: "", options };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // somebody wrote a percent sign by hand
  }
}

export function jobLink(id, tab = "overview", options = {}) {
  const query = new URLSearchParams(options).toString();
  return `#/jobs/${encodeURIComponent(id)}/${tab}${query ? `?${query}` : ""}`;
}

export function useRoute(fallback = "") {
  const read = () => parse(location.hash || fallback);
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const follow = () => setRoute(read());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return route;
}

// Another query of the same view, without an entry in the history.
export function replaceOptions(options) {
  const kept = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== "" && value !== null && value !== undefined));
  const query = new URLSearchParams(kept).toString();
  history.replaceState(null, "", `${location.hash.split("?")[0] || "#/jobs"}${query ? `?${query}` : ""}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
}
