import { byId, isDark } from "./dom.js";

/** Play: a step, a pause, and so on; slower for those who ask for less motion. */
export class Player {
  /**
   * @param {() => void} step
   * @param {(on: boolean) => void} changed
   */
  constructor(step, changed) {
    this.step = step;
    this.changed = changed;
    this.on = false;
    this.pause = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1500 : 400;
  }

  toggle() {
    this.on = !this.on;
    clearTimeout(this.timer);
    if (this.on) this.run();
    this.changed(this.on);
  }

  run() {
    this.timer = setTimeout(() => {
      this.step();
      if (this.on) this.run();
    }, this.pause);
  }
}

/**
 * @param {import("./format.js").Words} words
 * @param {() => void} repaint
 */
export function wireTheme(words, repaint) {
  const button = byId("theme");
  const name = () => button.setAttribute("aria-label", isDark() ? words.page.to_light : words.page.to_dark);
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    name();
    repaint();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    name();
    repaint();
  });
  name();
}

/**
 * @param {() => void} repaint paper is light, whatever the screen is
 * @param {() => void} flatten one canvas a map: printed, the upper one may hide the lower
 */
export function wirePrint(repaint, flatten) {
  /** @type {string | undefined} */
  let before;
  window.addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    repaint();
    flatten();
    document.documentElement.dataset.printing = "yes"; // canvases keep the size they were drawn at
  });
  window.addEventListener("afterprint", () => {
    delete document.documentElement.dataset.printing;
    if (before === undefined) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = before;
    repaint();
  });
}

/**
 * Keys that work wherever no field is being typed in.
 * @param {{play: () => void, back: () => void, forward: () => void, dayBack: () => void,
 *   dayForward: () => void, search: () => void, compare: () => void, select: () => void, clear: () => void}} acts
 */
export function wireKeys(acts) {
  /** @type {Record<string, () => void>} */
  const keys = { " ": acts.play, ",": acts.back, ".": acts.forward, "<": acts.dayBack, ">": acts.dayForward, "/": acts.search, c: acts.compare, s: acts.select, Escape: acts.clear };
  document.addEventListener("keydown", (e) => {
    const target = /** @type {HTMLElement} */ (e.target);
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) && target.getAttribute("type") !== "range";
    const pressing = e.key === " " && /^(BUTTON|SUMMARY)$/.test(target.tagName);
    if (typing || pressing || e.ctrlKey || e.metaKey || e.altKey || !(e.key in keys)) return;
    e.preventDefault();
    keys[e.key]();
  });
}
