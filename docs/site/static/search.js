/* Ranking of the site's search. Sphinx lists only pages that hold every word of a query and scores a
 * page by its best word; a question as people type it ("can I publish next month too") then finds
 * nothing. Here a page needs one of the words; rare words count more (inverse document frequency),
 * words in a page's name most, words in its headings more than words in its text. */
function rankedPages(index, words, excluded) {
  const list = (found) => (found === undefined ? [] : Array.isArray(found) ? found : [found]);
  const pages = index.docnames.length;
  const scores = new Map();
  const stemmer = new Stemmer();
  const names = index.titles.map(
    (title) => new Set(splitQuery(title.toLowerCase()).map((word) => stemmer.stemWord(word))),
  );
  for (const word of words) {
    const inText = list(Object.hasOwn(index.terms, word) ? index.terms[word] : undefined);
    const inTitles = new Set(
      list(Object.hasOwn(index.titleterms, word) ? index.titleterms[word] : undefined),
    );
    const holding = new Set([...inText, ...inTitles]);
    const rarity = Math.log(1 + pages / (1 + holding.size));
    for (const page of holding) {
      const where = names[page].has(word) ? 4 : inTitles.has(page) ? 2 : 1;
      scores.set(page, (scores.get(page) ?? 0) + rarity * where);
    }
  }
  for (const word of excluded)
    for (const page of [...list(index.terms[word]), ...list(index.titleterms[word])])
      scores.delete(page);
  // Evidence and decisions are for those who look for them by name.
  const weight = (name) => (/^(benchmarks|decisions|audit|fuzz)/.test(name) ? 0.6 : 1);
  return [...scores].map(([page, score]) => [
    index.docnames[page],
    index.titles[page],
    "",
    null,
    10 * score * weight(index.docnames[page]),
    index.filenames[page],
    "text",
  ]);
}

document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search !== "undefined")
    Search.performTermsSearch = (words, excluded) => rankedPages(Search._index, words, excluded);
});
