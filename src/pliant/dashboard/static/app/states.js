// How phases of jobs, states of nodes and reasons of exits are shown: a tone (a colour), a sign and a word, so that colour is never alone.

const PHASES = {
  Pending: ["wait", "dashed"],
  Invalid: ["bad", "cross"],
  Creating: ["wait", "dashed"],
  Running: ["active", "dot"],
  Suspending: ["quiet", "pause"],
  Suspended: ["quiet", "pause"],
  Succeeded: ["good", "check"],
  Failed: ["bad", "cross"],
  Stopped: ["quiet", "square"],
  Interrupted: ["warn", "bang"],
};

const NODE_STATES = {
  Pending: ["wait", "dashed"],
  Creating: ["wait", "dashed"],
  Running: ["active", "dot"],
  Succeeded: ["good", "check"],
  Failed: ["bad", "cross"],
  Deleted: ["quiet", "square"],
};

const EXITS = {
  Completed: ["good", "check"],
  OOM: ["bad", "memory"],
  Preempted: ["warn", "swap"],
  Killed: ["bad", "cross"],
  Error: ["bad", "cross"],
  Hang: ["bad", "pause"],
  Unknown: ["warn", "bang"],
};

const OUTCOMES = {
  advised: ["quiet", "info"],
  planned: ["wait", "dashed"],
  "under way": ["active", "dot"],
  "carried out": ["active", "dot"],
  kept: ["good", "check"],
  "rolled back": ["warn", "swap"],
  refused: ["bad", "cross"],
  expired: ["quiet", "square"],
  superseded: ["quiet", "square"],
};

const UNKNOWN = ["quiet", "info"];
export const FINAL_PHASES = new Set(["Succeeded", "Failed", "Stopped"]);
export const ENDED_STATES = new Set(["Succeeded", "Failed", "Deleted"]);
export const ORDERLY_EXITS = new Set(["Completed", "Preempted"]);

export const phaseLook = (phase) => PHASES[phase] ?? UNKNOWN;
export const nodeLook = (state) => NODE_STATES[state] ?? UNKNOWN;
export const exitLook = (reason) => EXITS[reason] ?? UNKNOWN;
export const outcomeLook = (outcome) => OUTCOMES[outcome] ?? UNKNOWN;

export function isActive(phase) {
  return !FINAL_PHASES.has(phase) && phase !== "Invalid" && phase !== "Interrupted";
}

// What an event is about and how much it matters: the tone of its mark.
const KINDS = {
  exit: "bad", ended: "quiet", hang: "bad", frozen: "bad", "give-up": "bad", refused: "warn", unschedulable: "warn", "too-large": "bad",
  "checkpoint-failed": "warn", "checkpoint-unusable": "warn", "evaluation-failed": "bad", "dump-failed": "warn", "dump-timeout": "warn",
  "journal-lost": "bad", "change-refused": "warn", "resize-refused": "warn", "algorithm-failed": "warn", silent: "warn", session: "warn",
  lease: "warn", "brain-lost": "warn", "not-combined": "warn", "changes-unavailable": "warn",
  plan: "accent", "plan-ended": "accent", scale: "accent", rollout: "accent", "rolled-out": "accent", resize: "accent", change: "accent",
  "checkpoint-recovered": "good", "best-version": "good", evaluation: "good",
};

export function eventTone(event) {
  const { kind, facts } = event;
  if (kind === "exit" && facts && (ORDERLY_EXITS.has(facts.exit_reason) || (facts.cause && facts.cause !== "own"))) return "quiet";
  if (kind === "ended" && facts && !ORDERLY_EXITS.has(facts.exit_reason)) return "bad";
  if (kind === "job" && facts) return facts.phase === "Succeeded" ? "good" : facts.phase === "Failed" ? "bad" : "quiet";
  if (kind === "master" && facts && facts.start > 1) return "warn";
  return KINDS[kind] ?? "quiet";
}

// The filters of the list of events.
const GROUPS = [
  ["Nodes", ["launch", "refused", "unschedulable", "scheduled", "too-large", "running", "exit", "restart", "ended", "hang", "frozen", "give-up", "remove"]],
  ["Scaling", ["scale", "rollout", "rolled-out", "resize", "resize-refused", "change", "change-refused", "change-note", "changes-unavailable"]],
  ["Plans", ["plan", "plan-ended", "planner-paused", "algorithm-failed", "brain-found", "brain-lost", "quota-granted"]],
  ["Data", ["dataset", "dataset-ended", "dataset-restored", "session", "lease"]],
  ["Training", ["evaluation", "evaluation-started", "evaluation-failed", "best-version", "training-stopped", "not-combined"]],
  ["Worlds", ["group-connected", "group-restart", "group-formed", "world", "world-limits", "world-taken-over", "silent"]],
  ["Servers", ["ps-restored", "ps-defined", "ps-schedule", "ps-seat-taken", "ps-ready", "ps-report", "ps-leaving", "ps-move", "ps-retired", "dump", "dump-failed", "dump-timeout"]],
  ["Checkpoints", ["checkpoint-failed", "checkpoint-recovered", "checkpoint-unusable"]],
  ["Job", ["master", "journal-lost", "taken-over", "job", "resumed"]],
];
const GROUP_OF = new Map(GROUPS.flatMap(([name, kinds]) => kinds.map((kind) => [kind, name])));

export const eventGroup = (kind) => GROUP_OF.get(kind) ?? "Job";
export const EVENT_GROUPS = GROUPS.map(([name]) => name);

// Events that are drawn on charts: what changes the job's speed or its nodes.
const MARKED = new Set([
  "exit", "hang", "frozen", "give-up", "scale", "rollout", "plan", "master", "journal-lost", "unschedulable", "checkpoint-failed", "evaluation-failed",
  "training-stopped", "resumed", "ps-move", "ended",
]);

export function isMarked(event) {
  if (!MARKED.has(event.kind)) return false;
  const { kind, facts = {} } = event;
  if (kind === "exit") return !ORDERLY_EXITS.has(facts.exit_reason) && (facts.cause ?? "own") === "own";
  if (kind === "ended") return facts.exit_reason !== "Completed";
  if (kind === "plan") return !facts.advice;
  return kind !== "master" || facts.start > 1;
}
