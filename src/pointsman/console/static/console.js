"use strict";
// What the pages do beyond links and forms: times in the reader's zone, keys, copying, live events, charts.
(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const forms = {
    time: { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
    full: { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
    day: { year: "numeric", month: "2-digit", day: "2-digit" },
  };

  for (const named of document.querySelectorAll("[data-zone]")) named.textContent = `Times in ${zone}`;
  function localise(root) {
    for (const time of root.querySelectorAll("time:not([data-done])")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      const form = time.dataset.form === "time" && Date.now() - at > 86400000 ? "full" : time.dataset.form;
      if (form !== "day") {
        time.textContent = new Intl.DateTimeFormat("sv-SE", forms[form] ?? forms.full).format(at);
        time.title += ` · shown in ${zone}`;
      }
      time.dataset.done = "";
    }
    const hour = new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    for (const text of root.querySelectorAll("text[data-at]")) text.textContent = hour.format(new Date(text.dataset.at * 1000));
  }

  // Rows by keyboard.
  const rows = () => [...document.querySelectorAll("[data-row]")];
  function move(step) {
    const all = rows(), now = all.findIndex((row) => row.classList.contains("at"));
    if (!all.length) return;
    const next = all[Math.min(all.length - 1, Math.max(0, now + step))];
    all.forEach((row) => row.classList.toggle("at", row === next));
    next.querySelector("[data-open-row]")?.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }

  // The command palette: pages, what an id names, and a search. 
  const palette = document.getElementById("palette"), words = document.getElementById("palette-words"), found = document.getElementById("palette-found");
  function entries(text) {
    const low = text.toLowerCase(), id = encodeURIComponent(text);
    const pages = [...document.querySelectorAll("nav [data-go]")].map((link) => [link.textContent, link.getAttribute("href")]);
    pages.push(["Why the cost changed", "/console/change"], ["Stuck agents", "/console/sessions?stuck=yes"], ["Spent in the last 30 days", "/console?last=30d"]);
    const all = pages.filter(([name]) => name.toLowerCase().includes(low));
    if (text) all.push([`Search decisions for “${text}”`, `/console/decisions?text=${id}`], [`Session ${text}`, `/console/sessions/${id}`]);
    if (/^d-/.test(text)) all.unshift([`Decision ${text}`, `/console/decisions/${id}`]);
    return all.slice(0, 12);
  }
  function offer() {
    found.replaceChildren(...entries(words.value.trim()).map(([name, to], at) => {
      const item = document.createElement("li");
      item.id = `palette-${at}`;
      item.setAttribute("role", "option");
      item.dataset.to = to;
      item.textContent = name;
      return item;
    }));
    choose(0);
  }
  function choose(at) {
    const all = [...found.children];
    all.forEach((item, number) => item.setAttribute("aria-selected", String(number === at)));
    words.setAttribute("aria-activedescendant", all.length ? `palette-${at}` : "");
    all[at]?.scrollIntoView({ block: "nearest" });
  }
  function openPalette() {
    if (!palette.open) palette.showModal();
    words.value = "";
    offer();
    words.focus();
  }
  if (palette) {
    words.addEventListener("input", offer);
    palette.addEventListener("keydown", (event) => {
      const all = [...found.children], at = all.findIndex((item) => item.getAttribute("aria-selected") === "true");
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); choose((at + step + all.length) % Math.max(all.length, 1)); }
      if (event.key === "Enter") { event.preventDefault(); if (all[at]) location.assign(all[at].dataset.to); }
    });
    palette.addEventListener("click", (event) => {
      const item = event.target.closest("[data-to]");
      if (item) location.assign(item.dataset.to);
      else if (event.target === palette) palette.close();
    });
  }

  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (palette && (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); openPalette(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const inField = event.target.closest("input, textarea, select");
    if (inField) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    if (Date.now() - going < 1500) {
      going = 0;
      const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); return; }
    }
    const keyed = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (keyed) { event.preventDefault(); keyed.click(); return; }
    const act = {
      j: () => move(1), k: () => move(-1), g: () => { going = Date.now(); },
      "/": () => document.querySelector("[data-focus]")?.focus(),
      Enter: () => {
        if (event.target.closest("a, button, summary")) return false;
        document.querySelector("[data-row].at [data-open-row]")?.click();
      },
    }[event.key];
    if (act && act() !== false) event.preventDefault();
  });

  // A click anywhere in a row opens it, but not one that acts by itself, nor the end of a selection of text.
  document.addEventListener("click", (event) => {
    const { ctrlKey, metaKey, shiftKey } = event;
    if (event.target.closest("a, button, summary, details, input, label") || getSelection().type === "Range") return;
    const link = event.target.closest("[data-row]")?.querySelector("[data-open-row]");
    link?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, ctrlKey, metaKey, shiftKey }));
  });

  document.addEventListener("click", async (event) => {
    const opener = event.target.closest("[data-open]");
    if (opener?.dataset.open === "palette") openPalette();
    else if (opener) document.getElementById(opener.dataset.open)?.showModal();
    const copier = event.target.closest("[data-copy]");
    if (copier) {
      const source = copier.dataset.copy ? document.getElementById(copier.dataset.copy) : copier.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(source.value ?? source.textContent);
        copier.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(source);
        copier.textContent = "Select and copy";
      }
    }
  });

  // An answer without the wanted part, such as an error page, must not empty its place: what it says goes there.
  document.addEventListener("htmx:after:request", (event) => {
    const { select, target, text, response } = event.detail.ctx;
    if (!select || !target) return;
    const page = new DOMParser().parseFromString(text, "text/html");
    if (page.querySelector(select)) return;
    event.preventDefault();
    const notice = [...page.querySelectorAll(".notice.bad")].at(-1) ?? document.createElement("div");
    if (!notice.textContent) {
      const to = encodeURIComponent(location.pathname + location.search);
      const isSignedOut = new URL(response.raw.url).pathname === "/console/login";
      notice.className = "notice bad";
      notice.setAttribute("role", "alert");
      notice.innerHTML = isSignedOut ? `You are signed out. <a href="/console/login?to=${to}">Sign in</a>` : `The gateway answered with status ${response.status}.`;
    }
    notice.dataset.refused = "";
    target.querySelector(":scope > [data-refused]")?.remove();
    target.prepend(notice);
  });

  // An address names only what is searched for.
  document.addEventListener("formdata", (event) => {
    if (event.target.method !== "get") return;
    for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
  }, true);

  // Live events of the page Now.
  const live = document.getElementById("live");
  function say(text, state) { live.textContent = text; live.className = `live ${state}`; }
  function put({ id, html }) {
    const body = document.getElementById("rows"), known = document.getElementById(`r-${id}`);
    const made = document.createElement("tbody");
    made.innerHTML = html; // made by the server, which has escaped every value
    const row = made.firstElementChild;
    localise(row);
    if (known) {
      row.classList.toggle("at", known.classList.contains("at"));
      const focused = known.contains(document.activeElement);
      known.replaceWith(row);
      if (focused) row.querySelector("[data-open-row]")?.focus({ preventScroll: true });
    } else {
      row.classList.add("new");
      body.prepend(row);
      while (body.children.length > 50) body.lastElementChild.remove();
    }
  }
  function watch() {
    const events = new EventSource(live.dataset.events);
    events.onopen = () => say("live", "on");
    events.onerror = () => say("connection lost; trying again", "off");
    events.addEventListener("trouble", (event) => say(JSON.parse(event.data).message, "off"));
    events.addEventListener("now", (event) => {
      const { figures, rows } = JSON.parse(event.data);
      if (live.classList.contains("off")) say("live", "on");
      document.getElementById("figures").innerHTML = figures;
      if (!rows.length) return;
      document.getElementById("stream").hidden = false;
      rows.forEach(put);
    });
    return events;
  }
  if (live) {
    let events = watch();
    addEventListener("pagehide", () => events.close());
    // A browser has few connections to one address: a page that nobody sees needs none.
    document.addEventListener("visibilitychange", () => {
      events.close();
      if (document.hidden) say("paused while hidden", "");
      else events = watch();
    });
  }

  // Charts: numbers that came with the page, or that are fetched when a fold is opened.
  async function chart(box) {
    if (!window.uPlot) return;
    const answer = box.dataset.values ? new Response(box.dataset.values) : await fetch(box.dataset.chart);
    if (!answer.ok) return;
    const { x, series } = await answer.json();
    if (!x || x.length < 2) { box.hidden = true; return; }
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
    const names = ["--accent", "--warn", "--ok", "--reasoning", "--complex", "--simple"], dashes = [[], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [1, 3]];
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const isShort = x[x.length - 1] - x[0] < 172800, two = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    const when = new Intl.DateTimeFormat("sv-SE", isShort ? two : { month: "2-digit", day: "2-digit", timeZone: "UTC" });
    const times = (_, splits) => splits.map((at) => when.format(new Date(at * 1000)));
    const plot = new window.uPlot({
      width: box.clientWidth, height: 220, axes: [{ ...axis, values: times }, { ...axis, size: 70 }], cursor: { y: false },
      series: [{ label: "Time", value: (_, at) => at === null ? "–" : when.format(new Date(at * 1000)) }, ...series.map((one, at) => ({ label: one.name, stroke: colour(names[at % 6]), dash: dashes[at % 6], width: 2, points: { show: x.length < 40 } }))],
    }, [x, ...series.map((one) => one.values)], box);
    new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: 220 })).observe(box);
  }

  function begin(root) {
    localise(root);
    for (const box of root.querySelectorAll("[data-chart]:not([data-done])")) {
      const fold = box.closest("details");
      box.dataset.done = "";
      if (fold && !fold.open) fold.addEventListener("toggle", () => chart(box), { once: true });
      else chart(box);
    }
  }
  // Not scrollIntoView: the first Tab would go on from there, past the link that skips the navigation.
  const here = document.querySelector("nav [aria-current]"), bar = here?.closest("nav");
  if (bar) bar.scrollLeft = here.offsetLeft - (bar.clientWidth - here.offsetWidth) / 2;
  begin(document);
  for (const name of ["htmx:after:swap", "htmx:afterSwap"]) document.addEventListener(name, () => begin(document));
})();
