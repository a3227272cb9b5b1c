/** Elements made of text: nothing here, or anywhere in these scripts, parses HTML. */

/**
 * @param {string} tag
 * @param {Record<string, string | number | boolean>} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

/**
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

/** @param {string} id */
export function canvasById(id) {
  return /** @type {HTMLCanvasElement} */ (byId(id));
}

/** @param {string} id */
export function inputById(id) {
  return /** @type {HTMLInputElement} */ (byId(id));
}

/** @returns {import("./mapdraw.js").Inks} the colours of the theme in force */
export function readInks() {
  const style = getComputedStyle(document.documentElement);
  const read = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: read("ink"), paper: read("paper"), border: read("border"), halo: read("halo"), accent: read("accent"),
    sea: read("sea"), hatch: read("hatch"), missing: read("missing"), muted: read("muted"), grid: read("grid"), borderEven: read("border-even"),
  };
}

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/**
 * A box that follows the pointer inside a frame.
 * @param {HTMLElement} tip
 * @param {HTMLElement} frame
 * @param {number} x
 * @param {number} y
 * @param {(Node | string)[]} lines
 */
export function showTip(tip, frame, x, y, lines) {
  tip.replaceChildren(...lines.map((line) => (typeof line === "string" ? make("div", {}, line) : line)));
  tip.hidden = lines.length === 0;
  if (tip.hidden) return;
  const right = x + tip.offsetWidth + 24 > frame.clientWidth;
  tip.style.left = `${Math.max(4, right ? x - tip.offsetWidth - 14 : x + 14)}px`;
  tip.style.top = `${Math.max(4, Math.min(y + 12, frame.clientHeight - tip.offsetHeight - 6))}px`;
}
