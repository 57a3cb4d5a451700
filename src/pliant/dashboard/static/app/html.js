// The one place that knows which library renders: templates (`html`), hooks and `render` for all other modules.

import { Fragment, createContext, h, render } from "../vendor/preact.js";
import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);

export { Fragment, createContext, render, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState };
