import { blend, FADE, inkOn } from "./colours.js";
import { ringPoints } from "./outlines.js";
import { placeLabels } from "./labels.js";
import { scaleBar } from "./view.js";

/**
 * @typedef {import("./outlines.js").Outlines} Outlines
 * @typedef {import("./view.js").View} View
 * @typedef {{ink: string, paper: string, border: string, halo: string, accent: string,
 *   sea: string, hatch: string, missing: string, muted: string, grid: string, borderEven: string}} Inks
 * @typedef {{zones: Path2D[], borders: Path2D, dots: boolean[]}} Paths
 */

export const DOT = 5;
const BARE = 2600; // square pixels a point has for itself, from which on its dot is as large as can be

/**
 * How large the dots of points are: smaller where they would cover each other.
 * @param {Outlines} map
 * @param {View} view
 */
export function dotSize(map, view) {
  const own = (map.width * map.height * view.scale ** 2) / Math.max(1, map.rings.length);
  return Math.max(2.5, Math.min(9, DOT + 4 * Math.min(1, own / BARE), 0.34 * Math.sqrt(own)));
}

/**
 * Outlines as paths on the lattice, built once.
 * @param {Outlines} map
 * @returns {Paths}
 */
export function buildPaths(map) {
  const borders = new Path2D();
  for (const arc of map.arcs) {
    borders.moveTo(arc[0], arc[1]);
    for (let k = 2; k < arc.length; k += 2) borders.lineTo(arc[k], arc[k + 1]);
  }
  const zones = map.rings.map((rings) => {
    const path = new Path2D();
    for (const ring of rings) {
      const points = ringPoints(map.arcs, ring);
      path.moveTo(points[0], points[1]);
      for (let k = 2; k < points.length; k += 2) path.lineTo(points[k], points[k + 1]);
      path.closePath();
    }
    return path;
  });
  return { zones, borders, dots: map.rings.map((rings) => rings.length === 0) };
}

/**
 * The zones' colours. `classes` is -1 where there is no number; `marked` is hatched in an ink that
 * its own colour shows, and faded where that is asked for.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Outlines} map
 * @param {Paths} paths
 * @param {View} view
 * @param {{classes: Int8Array, colours: string[], marked: Uint8Array | null, fade: boolean}} fills
 * @param {Inks} inks
 * @param {number} ratio device pixels per pixel
 */
export function drawFills(ctx, map, paths, view, fills, inks, ratio) {
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.clearRect(0, 0, ctx.canvas.width, ctx.canvas.height);
  const matrix = [ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y];
  const missing = new Path2D();
  const pale = fills.colours.map((c) => (fills.fade ? blend(c, inks.sea, FADE) : c));
  /** @type {Record<string, Path2D>} */
  const marked = {};
  const colour = (/** @type {number} */ z) => (fills.classes[z] < 0 ? inks.missing : (fills.marked?.[z] ? pale : fills.colours)[fills.classes[z]]);
  ctx.setTransform(matrix[0], 0, 0, matrix[3], matrix[4], matrix[5]);
  const place = new DOMMatrix(matrix);
  for (let z = 0; z < paths.zones.length; z += 1) {
    const kind = fills.classes[z];
    if (paths.dots[z]) continue;
    ctx.fillStyle = colour(z);
    ctx.fill(paths.zones[z], "evenodd");
    if (kind < 0) missing.addPath(paths.zones[z], place);
    else if (fills.marked?.[z]) (marked[inkOn(colour(z))] ??= new Path2D()).addPath(paths.zones[z], place);
  }
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.fillStyle = hatch(ctx, inks.hatch, ratio, false);
  ctx.fill(missing, "evenodd");
  ctx.globalAlpha = fills.fade ? 0.55 : 0.85; // what is faded asks for less
  for (const [ink, path] of Object.entries(marked)) {
    ctx.fillStyle = hatch(ctx, ink, ratio, true);
    ctx.fill(path, "evenodd");
  }
  ctx.globalAlpha = 1;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.lineWidth = 1;
  const radius = dotSize(map, view);
  map.anchors.forEach((anchor, z) => {
    if (!anchor || !paths.dots[z]) return;
    ctx.beginPath();
    ctx.arc(view.x + view.scale * anchor[0], view.y + view.scale * anchor[1], radius, 0, 2 * Math.PI);
    ctx.fillStyle = colour(z);
    ctx.fill();
    ctx.setLineDash(fills.marked?.[z] ? [2, 2] : []); // too small to be hatched
    ctx.strokeStyle = inks.ink;
    ctx.globalAlpha = 0.55;
    ctx.stroke();
    ctx.globalAlpha = 1;
  });
  ctx.setLineDash([]);
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} colour
 * @param {number} ratio
 * @param {boolean} falling
 * @returns {CanvasPattern | string}
 */
function hatch(ctx, colour, ratio, falling) {
  const size = Math.round(6 * ratio);
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = /** @type {CanvasRenderingContext2D} */ (tile.getContext("2d"));
  pen.strokeStyle = colour;
  pen.lineWidth = 1.25 * ratio;
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift, falling ? 0 : size);
    pen.lineTo(shift + size, falling ? size : 0);
  }
  pen.stroke();
  return ctx.createPattern(tile, "repeat") ?? colour;
}

/**
 * Borders, labels, scale bar and the marks of the chosen zones.
 * @param {CanvasRenderingContext2D} ctx
 * @param {{map: Outlines, paths: Paths, view: View, inks: Inks, ratio: number, width: number,
 *   height: number, hover: number, chosen: number, selected: Set<number>, even: boolean, labels: import("./labels.js").Candidate[]}} scene
 */
export function drawOver(ctx, scene) {
  const { map, paths, view, inks, ratio } = scene;
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.clearRect(0, 0, ctx.canvas.width, ctx.canvas.height);
  const scale = ratio * view.scale;
  ctx.setTransform(scale, 0, 0, scale, ratio * view.x, ratio * view.y);
  ctx.lineJoin = "round";
  const across = view.scale * Math.sqrt((map.width * map.height) / Math.max(1, map.rings.length));
  ctx.lineWidth = Math.min(1, Math.max(0.3, across / 45)) / view.scale; // fine where zones are small
  ctx.strokeStyle = scene.even ? inks.borderEven : inks.border;
  ctx.stroke(paths.borders);
  drawSelected(ctx, scene);
  for (const [zone, colour, width] of /** @type {[number, string, number][]} */ ([
    [scene.chosen, inks.accent, 3],
    [scene.hover, inks.ink, 1.75],
  ])) {
    if (zone < 0) continue;
    const path = paths.dots[zone] ? dot(map, zone, view) : paths.zones[zone];
    ctx.lineWidth = (width + 2) / view.scale;
    ctx.strokeStyle = inks.halo;
    ctx.stroke(path);
    ctx.lineWidth = width / view.scale;
    ctx.strokeStyle = colour;
    ctx.stroke(path);
  }
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawLabels(ctx, scene);
  drawBar(ctx, scene);
}

/**
 * Zones that are added up: their outlines, and stripes that leave the colours readable.
 * @param {CanvasRenderingContext2D} ctx
 * @param {{map: Outlines, paths: Paths, view: View, inks: Inks, ratio: number, selected: Set<number>}} scene
 */
function drawSelected(ctx, { map, paths, view, inks, ratio, selected }) {
  if (!selected.size) return;
  const all = new Path2D();
  for (const zone of selected) all.addPath(paths.dots[zone] ? dot(map, zone, view) : paths.zones[zone]);
  for (const [colour, width] of /** @type {[string, number][]} */ ([[inks.halo, 3.5], [inks.accent, 1.75]])) {
    ctx.lineWidth = width / view.scale;
    ctx.strokeStyle = colour;
    ctx.stroke(all);
  }
  ctx.save();
  ctx.clip(all, "evenodd");
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.globalAlpha = 0.45;
  ctx.fillStyle = hatch(ctx, inks.accent, ratio, true);
  ctx.fillRect(0, 0, ctx.canvas.width, ctx.canvas.height);
  ctx.restore();
}

/**
 * @param {Outlines} map
 * @param {number} zone
 * @param {View} view
 */
function dot(map, zone, view) {
  const path = new Path2D();
  const anchor = map.anchors[zone];
  if (anchor) path.arc(anchor[0], anchor[1], (dotSize(map, view) + 2) / view.scale, 0, 2 * Math.PI);
  return path;
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {{inks: Inks, width: number, height: number, labels: import("./labels.js").Candidate[]}} scene
 */
function drawLabels(ctx, { inks, width, height, labels }) {
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.lineJoin = "round";
  for (const label of labels) {
    ctx.font = labelFont(label.strong);
    label.width = ctx.measureText(label.text).width;
  }
  for (const label of placeLabels(labels, 14, { width, height }, 60)) {
    ctx.font = labelFont(label.strong);
    ctx.strokeStyle = inks.halo;
    ctx.lineWidth = 3.5;
    ctx.strokeText(label.text, label.x, label.y);
    ctx.fillStyle = inks.ink;
    ctx.fillText(label.text, label.x, label.y);
  }
}

/** @param {boolean} strong */
function labelFont(strong) {
  return `${strong ? "600 12px" : "11px"} system-ui, "DejaVu Sans", sans-serif`;
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {{map: Outlines, view: View, inks: Inks, width: number, height: number}} scene
 */
function drawBar(ctx, { map, view, inks, height }) {
  const { metres, pixels } = scaleBar(map.metres / view.scale, 110);
  const [x, y] = [14, height - 14];
  const text = metres >= 1000 ? `${metres / 1000} km` : `${metres} m`;
  ctx.font = labelFont(false);
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  for (const [colour, width] of /** @type {[string, number][]} */ ([[inks.halo, 4.5], [inks.ink, 1.5]])) {
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.beginPath();
    ctx.moveTo(x, y - 5);
    ctx.lineTo(x, y);
    ctx.lineTo(x + pixels, y);
    ctx.lineTo(x + pixels, y - 5);
    ctx.stroke();
  }
  ctx.strokeStyle = inks.halo;
  ctx.lineWidth = 3.5;
  ctx.strokeText(text, x + 5, y - 6);
  ctx.fillStyle = inks.ink;
  ctx.fillText(text, x + 5, y - 6);
}
