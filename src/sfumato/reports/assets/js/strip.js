import { classOf } from "./breaks.js";
import { prepare } from "./chart.js";
import { rgb } from "./colours.js";

/**
 * Every zone and every slot in one picture: a row for a zone, a column for a slot.
 * The picture is made once for a scale and an order, then only stretched.
 */
export class HeatStrip {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {{hover: (zone: number, slot: number, x: number, y: number) => void,
   *   pick: (zone: number, slot: number) => void}} tell
   */
  constructor(canvas, tell) {
    this.canvas = canvas;
    /** @type {number[]} */
    this.order = [];
    this.slots = 1;
    /** @type {HTMLCanvasElement | null} */
    this.picture = null;
    /** @type {import("./chart.js").Frame | null} */
    this.frame = null;
    const cell = (/** @type {MouseEvent} */ e) => {
      const box = canvas.getBoundingClientRect();
      const [x, y] = [e.clientX - box.left, e.clientY - box.top];
      if (!this.frame) return null;
      const slot = Math.floor(((x - this.frame.left) / this.frame.width) * this.slots);
      const row = Math.floor(((y - this.frame.top) / this.frame.height) * this.order.length);
      if (slot < 0 || slot >= this.slots || row < 0 || row >= this.order.length) return null;
      return { zone: this.order[row], slot, x, y };
    };
    canvas.addEventListener("pointermove", (e) => {
      const found = cell(e);
      if (found) tell.hover(found.zone, found.slot, found.x, found.y);
      else tell.hover(-1, 0, 0, 0);
    });
    canvas.addEventListener("pointerleave", () => tell.hover(-1, 0, 0, 0));
    canvas.addEventListener("click", (e) => {
      const found = cell(e);
      if (found) tell.pick(found.zone, found.slot);
    });
  }

  /**
   * @param {(zone: number, slot: number) => number} value
   * @param {number[]} order zones from the top
   * @param {number} slots
   * @param {number[]} breaks
   * @param {string[]} colours
   * @param {string} missing
   * @param {{doubted: (zone: number, slot: number) => boolean, colours: string[]}} faded what is uncertain, and its colours
   */
  compose(value, order, slots, breaks, colours, missing, faded) {
    this.order = order;
    this.slots = slots;
    const picture = document.createElement("canvas");
    picture.width = slots;
    picture.height = Math.max(1, order.length);
    const ctx = /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d"));
    const image = ctx.createImageData(picture.width, picture.height);
    const [inks, pale] = [colours.map(rgb), faded.colours.map(rgb)];
    const none = rgb(missing);
    order.forEach((zone, row) => {
      for (let t = 0; t < slots; t += 1) {
        const kind = classOf(breaks, value(zone, t));
        const [r, g, b] = kind < 0 ? none : (faded.doubted(zone, t) ? pale : inks)[kind];
        image.data.set([r, g, b, 255], 4 * (row * slots + t));
      }
    });
    ctx.putImageData(image, 0, 0);
    this.picture = picture;
  }

  /**
   * @param {{days: {slot: number, name: string}[], mark: number, second: number, chosen: number,
   *   inks: import("./mapdraw.js").Inks}} plot
   */
  draw(plot) {
    const made = prepare(this.canvas);
    if (!made || !this.picture) return;
    const { ctx, width, height } = made;
    const frame = { left: 12, top: 4, width: width - 24, height: height - 24, x: (/** @type {number} */ t) => t, y: (/** @type {number} */ v) => v };
    this.frame = frame;
    ctx.imageSmoothingEnabled = this.order.length > frame.height;
    ctx.imageSmoothingQuality = "high";
    ctx.drawImage(this.picture, frame.left, frame.top, frame.width, frame.height);
    ctx.font = '11px system-ui, "DejaVu Sans", sans-serif';
    ctx.textAlign = "left";
    let free = -Infinity;
    for (const { slot, name } of plot.days) {
      const at = frame.left + (slot / this.slots) * frame.width;
      ctx.strokeStyle = plot.inks.halo;
      ctx.lineWidth = 1;
      if (slot > 0) line(ctx, at, frame.top, at, frame.top + frame.height);
      if (at < free) continue;
      ctx.fillStyle = plot.inks.muted;
      ctx.fillText(name, at + 2, height - 5);
      free = at + ctx.measureText(name).width + 10;
    }
    for (const [slot, dash] of /** @type {[number, number[]][]} */ ([[plot.second, [4, 3]], [plot.mark, []]])) {
      if (slot < 0) continue;
      const at = frame.left + ((slot + 0.5) / this.slots) * frame.width;
      ctx.setLineDash(dash);
      for (const [colour, size] of /** @type {[string, number][]} */ ([[plot.inks.halo, 4], [plot.inks.accent, 2]])) {
        ctx.strokeStyle = colour;
        ctx.lineWidth = size;
        line(ctx, at, frame.top - 2, at, frame.top + frame.height + 2);
      }
    }
    ctx.setLineDash([]);
    const row = this.order.indexOf(plot.chosen);
    if (row >= 0) {
      const at = frame.top + ((row + 0.5) / this.order.length) * frame.height;
      ctx.fillStyle = plot.inks.accent;
      for (const [x, side] of [[frame.left - 2, -1], [frame.left + frame.width + 2, 1]]) {
        ctx.beginPath();
        ctx.moveTo(x, at);
        ctx.lineTo(x + 9 * side, at - 5);
        ctx.lineTo(x + 9 * side, at + 5);
        ctx.fill();
      }
    }
  }
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} x
 * @param {number} y
 * @param {number} toX
 * @param {number} toY
 */
function line(ctx, x, y, toX, toY) {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(toX, toY);
  ctx.stroke();
}
