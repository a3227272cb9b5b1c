/** What part of the map is seen: screen = scale * lattice + shift. Pure; tested without a screen. */

/** @typedef {{scale: number, x: number, y: number}} View */

/**
 * The whole map in the middle of the screen.
 * @param {number} width of the screen
 * @param {number} height
 * @param {number} mapWidth
 * @param {number} mapHeight
 * @param {number} pad
 * @returns {View}
 */
export function fit(width, height, mapWidth, mapHeight, pad) {
  const scale = Math.max(1e-6, Math.min((width - 2 * pad) / mapWidth, (height - 2 * pad) / mapHeight));
  return { scale, x: (width - scale * mapWidth) / 2, y: (height - scale * mapHeight) / 2 };
}

/**
 * Nearer or farther, the point (x, y) of the screen staying where it is.
 * @param {View} view
 * @param {number} factor
 * @param {number} x
 * @param {number} y
 * @param {number} least smallest scale allowed
 * @returns {View}
 */
export function zoom(view, factor, x, y, least) {
  const scale = Math.min(40 * least, Math.max(least, view.scale * factor));
  const real = scale / view.scale;
  return { scale, x: x - real * (x - view.x), y: y - real * (y - view.y) };
}

/**
 * Moved, but never so far that the map is lost from sight.
 * @param {View} view
 * @param {number} dx
 * @param {number} dy
 * @param {{width: number, height: number, mapWidth: number, mapHeight: number}} size
 * @returns {View}
 */
export function pan(view, dx, dy, size) {
  const keep = 60;
  const within = (/** @type {number} */ at, /** @type {number} */ screen, /** @type {number} */ map) =>
    Math.min(screen - keep, Math.max(keep - map * view.scale, at));
  return {
    scale: view.scale,
    x: within(view.x + dx, size.width, size.mapWidth),
    y: within(view.y + dy, size.height, size.mapHeight),
  };
}

/**
 * A round length for the scale bar, at most `most` pixels.
 * @param {number} metresPerPixel
 * @param {number} most
 * @returns {{metres: number, pixels: number}}
 */
export function scaleBar(metresPerPixel, most) {
  const limit = metresPerPixel * most;
  const unit = 10 ** Math.floor(Math.log10(limit));
  const metres = [5, 2, 1].map((m) => m * unit).find((m) => m <= limit) ?? unit;
  return { metres, pixels: metres / metresPerPixel };
}
