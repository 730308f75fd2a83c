// Scores of the site's search (`html_search_scorer`): pages whose title has the words first, guides before reference and
// explanation, decisions and names of the Python API last. scripts/ten_questions.py tries them.
var asked = (new URLSearchParams(window.location.search).get("q") || "").toLowerCase().match(/\w+/g) || [];
var inTitle = (title) => asked.filter((word) => title.toLowerCase().split(/\W+/).includes(word)).length;
var Scorer = {
  score: ([docname, title, , , score]) =>
    score + inTitle(title) + ({ "how-to": 2, tutorial: 2, decisions: -8, sources: -4 }[docname.split("/")[0]] || 0),
  objNameMatch: 3,
  objPartialMatch: 1,
  objPrio: { 0: 0, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
