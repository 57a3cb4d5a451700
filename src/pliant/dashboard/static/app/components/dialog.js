// A question that must be answered before something happens to a job. The browser's own dialog keeps the focus inside.

import { html, useEffect, useRef, useState } from "../html.js";
import { Text } from "./parts.js";

export function Dialog({ title, action, tone = "", onClose, onConfirm, children }) {
  const box = useRef(null);
  const [state, setState] = useState({ busy: false, error: null });
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    return () => before?.focus?.();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null });
    try {
      await onConfirm();
      onClose();
    } catch (problem) {
      setState({ busy: false, error: problem });
    }
  };
  return html`<dialog ref=${box} onClose=${onClose} aria-labelledby="dialog-title">
    <form onSubmit=${submit}>
      <h2 id="dialog-title">${title}</h2>
      ${children}
      ${state.error && html`<p class="error" role="alert"><${Text} of=${state.error.message} />${state.error.hint && html`<br /><span class="muted"><${Text} of=${state.error.hint} /></span>`}</p>`}
      <div class="buttons">
        <button type="button" onClick=${() => box.current.close()}>Cancel</button>
        <button type="submit" class="primary ${tone}" disabled=${state.busy}>${state.busy ? "Sending…" : action}</button>
      </div>
    </form>
  </dialog>`;
}
