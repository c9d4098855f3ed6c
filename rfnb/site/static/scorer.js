// How search ranks pages: by how often they say the words, lessons before theory and guides, pages for teachers last.
var RFNB_KINDS = [
  [/^notebooks\/\d\d_/, "lesson", 8],
  [/^notebooks\//, "notebook", 6],
  [/^docs\/theory\//, "theory", 4],
  [/^docs\/teaching/, "for teachers", -8],
  [/^reference\//, "reference", 0],
  [/^(docs\/contracts\/|docs\/architecture|CONTRIBUTING|CHANGELOG)/, "how it is built", -4],
  [/^docs\//, "guide", 3],
];
var rfnbKind = page => RFNB_KINDS.find(([pattern]) => pattern.test(page)) || [null, "", 0];
var rfnbWords = () =>
  (new URLSearchParams(location.search).get("q") || "").toLowerCase().split(/[^\p{L}\p{N}_]+/u).filter(word => word);
var rfnbText = page => ((typeof RFNB_TEXTS === "undefined" ? {} : RFNB_TEXTS)[page] || "");
var rfnbCount = (text, word) => text.split(word).length - 1;

var Scorer = {
  score: ([page, title, anchor, descr, score, file, kind]) => {
    const text = rfnbText(page).toLowerCase();
    const words = rfnbWords();
    if (kind === "object") {
      // A name in full, such as beam_search or rf.Dim, comes first; a word that is a part of names does not.
      const query = (new URLSearchParams(location.search).get("q") || "").trim();
      const full = /[_.]/.test(query) && (title === query || title.endsWith(`.${query}`));
      return score + (full ? 50 : -8);
    }
    const least = words.length ? Math.min(...words.map(word => rfnbCount(text, word))) : 0;
    return score + rfnbKind(page)[2] + 3 * Math.log2(1 + least);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
