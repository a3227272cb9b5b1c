import { byId, inputById, make } from "./dom.js";
import { fill } from "./format.js";

/** A box to find a zone by its name: a combobox as the ARIA practices describe it. */
export class Search {
  /**
   * @param {import("./format.js").Words} words
   * @param {() => import("./model.js").Release} release
   * @param {(zone: number) => void} pick
   */
  constructor(words, release, pick) {
    this.words = words;
    this.release = release;
    this.pick = pick;
    this.input = inputById("search");
    this.list = byId("search-list");
    /** @type {number[]} */
    this.found = [];
    this.at = -1;
    this.input.addEventListener("input", () => this.look());
    this.input.addEventListener("keydown", (e) => this.key(e));
    this.input.addEventListener("blur", () => setTimeout(() => this.close(), 150));
  }

  look() {
    this.found = this.release().search(this.input.value, 12);
    this.at = this.found.length ? 0 : -1;
    const none = this.input.value.trim() && !this.found.length;
    byId("search-none").textContent = none ? fill(this.words.search.none, { text: this.input.value.trim() }) : "";
    this.show();
  }

  show() {
    const { map } = this.release();
    this.list.replaceChildren(...this.found.map((zone, k) => {
      const id = map.ids[zone] === map.names[zone] ? "" : map.ids[zone];
      const item = make("li", { role: "option", id: `found-${k}`, "aria-selected": String(k === this.at) },
        make("span", { dir: "auto" }, map.names[zone]), make("small", { dir: "auto" }, [id, map.districts[zone]].filter(Boolean).join(" · ")));
      item.addEventListener("pointerdown", (e) => {
        e.preventDefault();
        this.take(zone);
      });
      return item;
    }));
    this.list.hidden = !this.found.length;
    this.input.setAttribute("aria-expanded", String(!this.list.hidden));
    this.input.setAttribute("aria-activedescendant", this.at >= 0 ? `found-${this.at}` : "");
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    const size = this.found.length;
    if (e.key === "ArrowDown" && size) this.at = (this.at + 1) % size;
    else if (e.key === "ArrowUp" && size) this.at = (this.at + size - 1) % size;
    else if (e.key === "Enter" && this.at >= 0) return this.take(this.found[this.at]);
    else if (e.key === "Escape") return this.close();
    else return;
    e.preventDefault();
    this.show();
  }

  /** @param {number} zone */
  take(zone) {
    this.input.value = this.release().map.names[zone];
    this.close();
    this.pick(zone);
  }

  close() {
    this.found = [];
    this.at = -1;
    this.show();
    byId("search-none").textContent = "";
  }
}
