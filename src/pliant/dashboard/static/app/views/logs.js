// What a node writes: live at the end, older pages on demand, and a search over all of it.
//
// Lines stay in blocks that never change once they are full, so a busy log costs what is new. A browser draws only the blocks
// that are visible (`content-visibility`), and its own search and selection work.

import { jobPath, read } from "../api.js";
import { plain, spans } from "../ansi.js";
import { Empty, Notice, Text } from "../components/parts.js";
import { Icon } from "../components/icon.js";
import { clean, count, plural } from "../format.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../html.js";
import { replaceOptions } from "../router.js";
import { now, useStore } from "../store.js";

const BLOCK = 200; // lines
const PAGE = 500;
const NEAR_END = 60; // pixels: whoever reads the end keeps reading it

export function Logs({ id, doc, job, options }) {
  const embedded = useStore((state) => state.connection.state === "embedded");
  const [nodes, setNodes] = useState(embedded ? Object.keys(job.docs.logs ?? {}) : null);
  const [problem, setProblem] = useState(null);
  const { node = "" } = options;
  useEffect(() => {
    if (embedded) return undefined;
    let current = true;
    const ask = async () => {
      try {
        const page = await read(jobPath(id, "log", { tail: 1 }));
        if (current) setNodes(page.nodes);
        if (current) setProblem(null);
      } catch (refusal) {
        if (current) setProblem(refusal);
      }
    };
    ask();
    const timer = setInterval(ask, 10000);
    return () => ((current = false), clearInterval(timer));
  }, [id]);
  const first = nodes?.find((name) => name === doc.first_failure?.node && doc.phase === "Failed") ?? nodes?.find((name) => name.startsWith("worker")) ?? nodes?.[0];
  useEffect(() => {
    if (!node && first) replaceOptions({ ...options, node: first });
  }, [node, first]);
  if (problem && !nodes) return html`<${Notice} tone="warn"><${Text} of=${problem.message} /> <${Text} of=${problem.hint} /></${Notice}>`;
  if (!nodes) return html`<${Empty} title="Reading the list of nodes…" />`;
  if (!nodes.length) return html`<div class="panel"><${Empty} title="No output yet" /></div>`;
  return html`<${Log} key=${node || first} id=${id} node=${node || first} nodes=${nodes} options=${options} embedded=${embedded} live=${job.log} pages=${job.docs.logs} />`;
}

function Log({ id, node, nodes, options, embedded, live, pages }) {
  const [older, setOlder] = useState({ lines: [], before: null, atStart: false, busy: false, problem: null });
  const [wrap, setWrap] = useState(true);
  const [following, setFollowing] = useState(true);
  const [text, setText] = useState("");
  const box = useRef(null);
  const anchor = useRef(null);
  const here = embedded ? pages?.[node] : live?.node === node ? live : null;
  const newer = here?.lines ?? [];
  const lines = useMemo(() => older.lines.concat(newer), [older.lines, newer]);
  const atStart = older.atStart || Boolean(here?.at_start && !here.start);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    if (anchor.current !== null) {
      element.scrollTop = element.scrollHeight - anchor.current; // older lines were put before what is read
      anchor.current = null;
    } else if (following) element.scrollTop = element.scrollHeight;
  }, [lines.length, wrap, following]);
  const onScroll = ({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
    const near = scrollTop + clientHeight >= scrollHeight - NEAR_END;
    if (near !== following) setFollowing(near);
  };
  const more = async () => {
    const before = older.before ?? (here?.start ? newer[0]?.at : here?.before ?? newer[0]?.at);
    if (!before) return;
    setOlder((state) => ({ ...state, busy: true }));
    try {
      const page = await read(jobPath(id, "log", { node, before, tail: PAGE }));
      anchor.current = box.current.scrollHeight - box.current.scrollTop;
      setFollowing(false);
      setOlder((state) => ({ lines: page.lines.concat(state.lines), before: page.before, atStart: page.at_start || !page.lines.length, busy: false, problem: null }));
    } catch (problem) {
      setOlder((state) => ({ ...state, busy: false, problem }));
    }
  };
  return html`<section class="panel log" aria-label=${`Output of ${clean(node)}`}>
    <header>
      <label class="pick"><span class="hidden-visually">Node</span>
        <select value=${node} onChange=${(event) => replaceOptions({ ...options, node: event.currentTarget.value })}>${[...new Set([node, ...nodes])].map((name) => html`<option key=${name} value=${name}>${clean(name)}</option>`)}</select></label>
      <span class="muted small">${count(lines.length)} lines${here || embedded ? "" : ", reading…"}</span>
      <div class="tools">
        <label class="check small"><input type="checkbox" checked=${wrap} onChange=${(event) => setWrap(event.currentTarget.checked)} /> Wrap lines</label>
        <${Search} id=${id} node=${node} nodes=${nodes} embedded=${embedded} pages=${pages} text=${text} setText=${setText} onNode=${(name) => replaceOptions({ ...options, node: name })} />
      </div>
    </header>
    <div class="log-box ${wrap ? "wrap" : ""}" ref=${box} onScroll=${onScroll} tabindex="0" role="log" aria-live="off" aria-label=${`Lines of ${clean(node)}`}>
      ${!lines.length ? html`<p class="muted log-start">${here ? "No output yet." : "Reading…"}</p>`
        : !atStart ? html`<p class="log-start"><button type="button" class="link" disabled=${older.busy} onClick=${more}>${embedded ? "" : older.busy ? "Reading…" : "Older lines"}</button>${embedded ? html`<span class="muted">Older lines are not part of this report.</span>` : ""}${older.problem && html` <span class="toned tone-bad"><${Text} of=${older.problem.message} /></span>`}</p>`
        : html`<p class="muted log-start">Beginning of the output</p>`}
      <${Blocks} lines=${lines} start=${here?.start ?? 0} older=${older.lines.length} mark=${text} />
    </div>
    ${!following && html`<button type="button" class="to-end primary" onClick=${() => setFollowing(true)}><${Icon} name="down" /> To the end</button>`}
  </section>`;
}

// Blocks are cut at fixed numbers of lines, counted from the first one that arrived live, so that a full block stays what it is.
function Blocks({ lines, start, older, mark }) {
  const blocks = [];
  let from = 0;
  const first = start - older; // number of the first line; older ones count below
  while (from < lines.length) {
    const number = Math.floor((first + from) / BLOCK);
    const to = Math.min(lines.length, (number + 1) * BLOCK - first);
    blocks.push({ number, from, to });
    from = to;
  }
  return blocks.map(({ number, from: begin, to }) => html`<${Block} key=${number} lines=${lines} from=${begin} to=${to} mark=${mark} />`);
}

function Block({ lines, from, to, mark }) {
  const firstLine = lines[from];
  const lastLine = lines[to - 1];
  return useMemo(
    () => html`<div class="block">${lines.slice(from, to).map(({ at, text, cut }) => html`<div class="line" key=${at}>${spans(text).map(({ text: part, className }, index) => html`<span key=${index} class=${className || undefined}>${marked(part, mark)}</span>`)}${cut ? html`<span class="muted"> … cut</span>` : ""}${"\n"}</div>`)}</div>`,
    [firstLine, lastLine, to - from, mark],
  );
}

// The words that are searched for, marked.
function marked(text, mark) {
  if (mark.length < 2) return text;
  const found = [];
  const where = text.toLowerCase();
  const word = mark.toLowerCase();
  let from = 0;
  for (let at = where.indexOf(word); at >= 0 && found.length < 100; at = where.indexOf(word, from)) {
    found.push(text.slice(from, at), html`<mark>${text.slice(at, at + word.length)}</mark>`);
    from = at + word.length;
  }
  found.push(text.slice(from));
  return found;
}

function Search({ id, node, nodes, embedded, pages, text, setText, onNode }) {
  const [everywhere, setEverywhere] = useState(false);
  const [found, setFound] = useState(null);
  useEffect(() => {
    if (text.length < 2) return setFound(null), undefined;
    let current = true;
    const timer = setTimeout(async () => {
      try {
        const answer = embedded ? searchEmbedded(pages, text, everywhere ? null : node) : await read(jobPath(id, "search", { q: text, node: everywhere ? "" : node }));
        if (current) setFound({ ...answer, at: now() });
      } catch (problem) {
        if (current) setFound({ problem });
      }
    }, 250);
    return () => ((current = false), clearTimeout(timer));
  }, [text, node, everywhere]);
  return html`<label class="search"><span class="hidden-visually">Search in the output</span><${Icon} name="search" />
      <input type="search" data-filter value=${text} placeholder="Search all of the output" autocomplete="off" spellcheck=${false} onInput=${(event) => setText(event.currentTarget.value)}
        onKeyDown=${(event) => event.key === "Escape" && setText("")} /><kbd aria-hidden="true">/</kbd></label>
    ${found && html`<div class="found" role="region" aria-label="Lines found">
      <p class="small"><b role="status">${found.problem ? "" : `${plural(found.matches.length, "line")} found${found.complete ? "" : ", there may be more"}`}</b>
        ${nodes.length > 1 && html`<label class="check"><input type="checkbox" checked=${everywhere} onChange=${(event) => setEverywhere(event.currentTarget.checked)} /> all nodes</label>`}
        <button type="button" class="link" onClick=${() => setText("")}>Close</button></p>
      ${found.problem ? html`<p class="toned tone-bad"><${Text} of=${found.problem.message} /></p>` : html`<ol>${found.matches.slice(0, 200).map((match, index) => html`<li key=${index}>${everywhere && html`<button type="button" class="link" onClick=${() => onNode(match.node)}>${clean(match.node)}</button> `}<code>${marked(plain(match.text), text)}</code></li>`)}</ol>`}
    </div>`}`;
}

function searchEmbedded(pages, text, node) {
  const word = text.toLowerCase();
  const matches = Object.entries(pages ?? {}).filter(([name]) => !node || name === node)
    .flatMap(([name, page]) => page.lines.filter((line) => plain(line.text).toLowerCase().includes(word)).map((line) => ({ node: name, at: line.at, text: line.text })));
  return { matches: matches.slice(0, 500), complete: matches.length <= 500 };
}
