import { buildPaths, dotSize, drawFills, drawOver } from "./mapdraw.js";
import { zoneAt } from "./outlines.js";
import { fit, pan, zoom } from "./view.js";

/**
 * @typedef {import("./outlines.js").Outlines} Outlines
 * @typedef {{names: string[], districts: string[]}} Names
 * @typedef {{x: number, y: number}} Point
 */

/** A map on two canvases: colours below, which change with the hour, and lines above. */
export class MapView {
  /**
   * @param {HTMLElement} frame
   * @param {{hover: (zone: number, x: number, y: number) => void, pick: (zone: number) => void,
   *   moved?: (view: import("./view.js").View) => void,
   *   over?: (ctx: CanvasRenderingContext2D, view: import("./view.js").View) => void,
   *   draws?: () => boolean, drawn?: (path: Point[], map: Outlines) => void}} tell
   *   draws: whether a pointer that goes down draws a shape; drawn: its points on the lattice
   */
  constructor(frame, tell) {
    this.frame = frame;
    this.tell = tell;
    this.below = canvas(frame, "below");
    this.above = canvas(frame, "above");
    /** @type {Outlines | null} */
    this.map = null;
    /** @type {Names} */
    this.names = { names: [], districts: [] };
    this.view = { scale: 1, x: 0, y: 0 };
    this.least = 1;
    this.hover = -1;
    this.chosen = -1;
    /** @type {Set<number>} */
    this.selected = new Set();
    /** What is being drawn, in pixels of the frame.
     * @type {Point[]} */
    this.path = [];
    this.fresh = true;
    this.even = false;
    /** @type {{classes: Int8Array, colours: string[], marked: Uint8Array | null, fade: boolean}} */
    this.fills = { classes: new Int8Array(0), colours: [], marked: null, fade: false };
    /** @type {import("./mapdraw.js").Inks | null} */
    this.inks = null;
    this.listen();
    new ResizeObserver(() => this.resize()).observe(frame);
  }

  /**
   * @param {Outlines} map
   * @param {Names} names
   */
  setMap(map, names) {
    if (this.map === map) return;
    this.map = map;
    this.names = names;
    this.paths = buildPaths(map);
    this.groups = districts(map, names);
    this.hover = this.chosen = -1;
    this.fresh = true;
    this.resize();
  }

  /**
   * @param {Int8Array} classes
   * @param {string[]} colours
   * @param {Uint8Array | null} marked
   * @param {boolean} [even] a difference: its pale middle needs dark borders
   * @param {boolean} [fade] what is marked
   */
  paint(classes, colours, marked, even = false, fade = false) {
    this.fills = { classes, colours, marked, fade };
    this.drawBelow();
    if (even !== this.even) {
      this.even = even;
      this.drawAbove();
    }
  }

  /** @param {number} zone */
  choose(zone) {
    this.chosen = zone;
    this.drawAbove();
  }

  /** @param {Set<number>} zones */
  select(zones) {
    this.selected = zones;
    this.drawAbove();
  }

  /** @param {import("./mapdraw.js").Inks} inks */
  ink(inks) {
    this.inks = inks;
    this.drawAbove();
  }

  size() {
    return { width: this.frame.clientWidth, height: this.frame.clientHeight, mapWidth: this.map?.width ?? 1, mapHeight: this.map?.height ?? 1 };
  }

  resize() {
    const { width, height, mapWidth, mapHeight } = this.size();
    if (!width || !height || document.documentElement.dataset.printing) return;
    this.ratio = Math.min(3, window.devicePixelRatio || 1);
    for (const c of [this.below, this.above]) {
      c.width = Math.round(width * this.ratio);
      c.height = Math.round(height * this.ratio);
    }
    const whole = fit(width, height, mapWidth, mapHeight, 18);
    if (this.fresh || this.view.scale <= this.least) {
      this.view = whole;
      this.fresh = false;
    }
    this.least = whole.scale;
    this.draw();
  }

  draw() {
    this.drawBelow();
    this.drawAbove();
  }

  drawBelow() {
    const ctx = this.below.getContext("2d");
    if (!ctx || !this.map || !this.paths || !this.inks || this.fills.classes.length !== this.map.rings.length) return;
    drawFills(ctx, this.map, this.paths, this.view, this.fills, this.inks, this.ratio ?? 1);
  }

  drawAbove() {
    const ctx = this.above.getContext("2d");
    if (!ctx || !this.map || !this.paths || !this.inks) return;
    const { map, paths, view, inks, hover, chosen, selected, even } = this;
    const { width, height } = this.size();
    drawOver(ctx, { map, paths, view, inks, ratio: this.ratio ?? 1, width, height, hover, chosen, selected, even, labels: this.labels() });
    this.tell.over?.(ctx, view);
  }

  /** Put the colours behind the lines on the upper canvas, for printers; `draw` undoes it. */
  flatten() {
    const ctx = this.above.getContext("2d");
    if (!ctx || !this.below.width) return;
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.globalCompositeOperation = "destination-over";
    ctx.drawImage(this.below, 0, 0);
    ctx.globalCompositeOperation = "source-over";
  }

  /** Districts from afar, zones from near. */
  labels() {
    const { map, view } = this;
    if (!map) return [];
    const near = view.scale / this.least > 2.2 || map.rings.length <= 40;
    const shift = (/** @type {number} */ x, /** @type {number} */ y) => ({ x: view.x + view.scale * x, y: view.y + view.scale * y, width: 0 });
    const strong = (this.groups ?? []).map((g) => ({ text: g.name, ...shift(g.x, g.y), room: Infinity, weight: 1e12 + g.area, strong: true }));
    if (!near) return strong;
    const weak = map.anchors.flatMap((a, z) => {
      if (!a) return [];
      const wide = map.boxes[4 * z + 2] - map.boxes[4 * z];
      const [room, above] = map.rings[z].length ? [1.05 * wide * view.scale, 0] : [Infinity, 8 + dotSize(map, view)]; // not on its dot
      const at = shift(a[0], a[1]);
      return [{ text: this.names.names[z], ...at, y: at.y - above, room, weight: map.km2[z], strong: false }];
    });
    return view.scale / this.least > 4 ? weak : [...strong, ...weak];
  }

  /**
   * @param {number} factor
   * @param {number} [x]
   * @param {number} [y]
   */
  zoomBy(factor, x, y) {
    const { width, height } = this.size();
    this.view = zoom(this.view, factor, x ?? width / 2, y ?? height / 2, this.least);
    this.panBy(0, 0);
  }

  /**
   * @param {number} dx
   * @param {number} dy
   */
  panBy(dx, dy) {
    const size = this.size();
    this.view = this.view.scale <= this.least * 1.001 && !dx && !dy
      ? fit(size.width, size.height, size.mapWidth, size.mapHeight, 18)
      : pan(this.view, dx, dy, size);
    this.draw();
    this.tell.moved?.(this.view);
  }

  /** @param {import("./view.js").View} view that another map shows */
  follow(view) {
    this.view = { ...view };
    this.draw();
  }

  reset() {
    this.fresh = true;
    this.resize();
    this.tell.moved?.(this.view);
  }

  /** What part is seen, whatever the screen's size; `null` where all of it is. */
  looking() {
    const { width, height, mapWidth, mapHeight } = this.size();
    const zoomed = this.view.scale / this.least;
    if (!this.map || zoomed <= 1.001) return null;
    const part = (/** @type {number} */ v) => Math.min(1, Math.max(0, v));
    return {
      x: part((width / 2 - this.view.x) / this.view.scale / mapWidth),
      y: part((height / 2 - this.view.y) / this.view.scale / mapHeight),
      zoom: zoomed,
    };
  }

  /** @param {{x: number, y: number, zoom: number}} look */
  lookAt({ x, y, zoom: nearer }) {
    const { width, height, mapWidth, mapHeight } = this.size();
    const scale = this.least * nearer;
    this.fresh = false;
    this.view = { scale, x: width / 2 - scale * x * mapWidth, y: height / 2 - scale * y * mapHeight };
    this.panBy(0, 0);
  }

  /** @param {number} zone brought into sight if it is not */
  reveal(zone) {
    const anchor = this.map?.anchors[zone];
    if (!anchor) return;
    const { width, height } = this.size();
    const [x, y] = [this.view.x + this.view.scale * anchor[0], this.view.y + this.view.scale * anchor[1]];
    if (x < 20 || y < 20 || x > width - 20 || y > height - 20) this.panBy(width / 2 - x, height / 2 - y);
  }

  /**
   * @param {number} x pixels in the frame
   * @param {number} y
   */
  at(x, y) {
    if (!this.map) return -1;
    const { scale } = this.view;
    return zoneAt(this.map, (x - this.view.x) / scale, (y - this.view.y) / scale, (dotSize(this.map, this.view) + 5) / scale);
  }

  /** @param {number} zone */
  point(zone) {
    if (zone === this.hover) return;
    this.hover = zone;
    this.drawAbove();
  }

  listen() {
    /** @type {Map<number, {x: number, y: number}>} */
    const fingers = new Map();
    let travelled = 0;
    const spot = (/** @type {{clientX: number, clientY: number}} */ e) => {
      const box = this.frame.getBoundingClientRect();
      return { x: e.clientX - box.left, y: e.clientY - box.top };
    };
    this.above.addEventListener("pointerdown", (e) => {
      this.above.setPointerCapture(e.pointerId);
      fingers.set(e.pointerId, spot(e));
      if (fingers.size === 1) travelled = 0;
      this.path = fingers.size === 1 && this.tell.draws?.() ? [spot(e)] : []; // two fingers move the map
    });
    this.above.addEventListener("pointermove", (e) => {
      const now = spot(e);
      const before = fingers.get(e.pointerId);
      if (!before) {
        const zone = this.at(now.x, now.y);
        this.point(zone);
        this.tell.hover(zone, now.x, now.y);
        return;
      }
      travelled += Math.hypot(now.x - before.x, now.y - before.y);
      const other = [...fingers].find(([id]) => id !== e.pointerId)?.[1];
      fingers.set(e.pointerId, now);
      if (this.path.length) {
        this.path.push(now);
        this.tell.hover(-1, 0, 0);
        this.drawAbove();
      } else if (other) {
        const ratio = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
        this.zoomBy(ratio, other.x, other.y);
      } else if (travelled > 4) {
        this.panBy(now.x - before.x, now.y - before.y);
        this.tell.hover(-1, 0, 0);
      }
    });
    for (const name of /** @type {const} */ (["pointerup", "pointercancel"])) {
      this.above.addEventListener(name, (e) => {
        const at = spot(e);
        const path = this.path;
        this.path = [];
        if (name === "pointerup" && fingers.size === 1 && travelled <= 4) this.tell.pick(this.at(at.x, at.y));
        else if (name === "pointerup" && path.length > 1 && this.map) {
          const { x, y, scale } = this.view;
          this.tell.drawn?.(path.map((p) => ({ x: (p.x - x) / scale, y: (p.y - y) / scale })), this.map);
        }
        if (path.length) this.drawAbove();
        fingers.delete(e.pointerId);
      });
    }
    this.above.addEventListener("pointerleave", () => {
      this.point(-1);
      this.tell.hover(-1, 0, 0);
    });
    this.above.addEventListener("wheel", (e) => {
      e.preventDefault();
      const at = spot(e);
      if (this.path.length) return; // what is drawn stays where it is
      this.zoomBy(Math.exp(-Math.sign(e.deltaY) * Math.min(0.35, Math.abs(e.deltaY) / 300)), at.x, at.y);
    }, { passive: false });
    this.above.addEventListener("dblclick", (e) => {
      if (this.tell.draws?.()) return;
      const at = spot(e);
      this.zoomBy(2, at.x, at.y);
    });
    this.frame.addEventListener("keydown", (e) => this.key(e));
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    const step = 60;
    /** @type {Record<string, () => void>} */
    const moves = {
      ArrowLeft: () => this.panBy(step, 0),
      ArrowRight: () => this.panBy(-step, 0),
      ArrowUp: () => this.panBy(0, step),
      ArrowDown: () => this.panBy(0, -step),
      "+": () => this.zoomBy(1.5),
      "=": () => this.zoomBy(1.5),
      "-": () => this.zoomBy(1 / 1.5),
      0: () => this.reset(),
    };
    if (!(e.key in moves) || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    e.stopPropagation();
    moves[e.key]();
  }
}

/**
 * @param {HTMLElement} frame
 * @param {string} kind
 */
function canvas(frame, kind) {
  const made = document.createElement("canvas");
  made.className = kind;
  made.setAttribute("aria-hidden", "true");
  frame.append(made);
  return made;
}

/**
 * Where the names of districts belong: the middle of their zones by area. Where no districts
 * are given, what stands before a comma in the zones' names serves.
 * @param {Outlines} map
 * @param {Names} names
 */
function districts(map, names) {
  /** @type {Map<string, {name: string, x: number, y: number, area: number}>} */
  const found = new Map();
  const given = names.districts.some((d) => d);
  names.names.forEach((whole, z) => {
    const name = given ? names.districts[z] : whole.includes(", ") ? whole.split(", ")[0] : "";
    const anchor = map.anchors[z];
    if (!name || !anchor) return;
    const area = map.km2[z] || 1e-9;
    const g = found.get(name) ?? { name, x: 0, y: 0, area: 0 };
    g.x += area * anchor[0];
    g.y += area * anchor[1];
    g.area += area;
    found.set(name, g);
  });
  if (found.size < 2 || found.size > 80) return [];
  return [...found.values()].map((g) => ({ ...g, x: g.x / g.area, y: g.y / g.area }));
}
