// Keeps a page up to date: listens to events, asks for the same page again, and renews the parts that have changed.
"use strict";

(() => {
  const PAUSE = 1000;       // milliseconds between two renewals, at least
  const SHARE = 10;         // the pause is so many times as long as a renewal took: a busy service is asked less often
  const RETRY = 2000;       // before a stream that was closed is opened again
  const QUIET = 8000;       // between two announcements of ordinary events
  const state = document.getElementById("state");
  const words = document.getElementById("state-words");
  const news = document.getElementById("news");
  const charts = [];
  let source = null, last = null, timer = null, busy = false, again = false, announced = 0, counts = { ask: 0 }, took = 0;

  function show(kind, said) {
    state.dataset.state = kind;
    if (words.textContent !== said) words.textContent = said;
  }

  // The stream.

  function listen() {
    const address = new URL(document.body.dataset.stream, location.href);
    if (last !== null) address.searchParams.set("after", last);
    source = new EventSource(address);
    source.onopen = () => { show("live", "Live"); renewSoon(); };
    source.onerror = () => {
      show("lost", "Connection lost, trying again");
      if (source.readyState === EventSource.CLOSED) later();
    };
    source.addEventListener("end", () => { source.close(); renew(); later(); });
    for (const kind of ["ask", "tell", "alarm", "trust", "approve", "reject", "lapse", "expire", "correct", "relocate",
      "pause", "resume", "mode", "close", "reopen", "site", "deployment"]) {
      source.addEventListener(kind, (event) => happened(kind, event));
    }
  }

  function later() {
    setTimeout(() => { if (source.readyState === EventSource.CLOSED) { renew(); listen(); } }, RETRY);
  }

  function happened(kind, event) {
    last = event.lastEventId;
    const told = JSON.parse(event.data);
    if (kind === "alarm" || (kind === "ask" && told.body.status === "waiting")) say(told.words);
    else if (kind === "ask") counts.ask += 1;
    renewSoon();
  }

  function say(said) {
    news.textContent = said;
    announced = Date.now();
  }

  // Renewal: what is typed, focused or unfolded stays as it is.

  function renewSoon() {
    if (timer === null) timer = setTimeout(() => { timer = null; renew(); }, Math.max(PAUSE, SHARE * took));
  }

  async function renew() {
    if (busy) { again = true; return; }
    busy = true;
    const begun = Date.now();
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", cache: "no-store" });
      if (answer.redirected && new URL(answer.url).pathname === "/sign-in") { location.reload(); return; }
      if (answer.ok) replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
      await Promise.all(charts.map((chart) => chart.renew()));
      if (counts.ask && Date.now() - announced > QUIET) {
        say(`Updated: ${counts.ask} new ${counts.ask === 1 ? "decision" : "decisions"}`);
        counts.ask = 0;
      }
    } catch { /* the server is away; the stream says so */ }
    busy = false;
    took = Date.now() - begun;
    if (again) { again = false; renewSoon(); }
  }

  function urgent() {
    return [...document.querySelectorAll(".need.alarm, .need.contradiction")].map((each) => each.textContent.trim()).join(" ");
  }

  function replace(fresh) {
    const before = urgent();
    for (const old of document.querySelectorAll("[data-live]")) {
      const made = fresh.getElementById(old.id);
      if (!made || made.innerHTML === old.dataset.was || isInUse(old)) continue;
      if (old.dataset.was === undefined && made.isEqualNode(old)) { old.dataset.was = made.innerHTML; continue; }
      const focus = place(old, document.activeElement);
      const open = [...old.querySelectorAll("details")].map((each) => each.open);
      const scrolled = [...old.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
      const was = made.innerHTML;
      old.replaceChildren(...[...made.childNodes].map((each) => document.importNode(each, true)));
      old.dataset.was = was;
      old.querySelectorAll("details").forEach((each, i) => { if (open[i]) each.open = true; });
      old.querySelectorAll(".scroll").forEach((each, i) => { each.scrollLeft = scrolled[i] || 0; });
      restore(old, focus);
    }
    const now = urgent();
    if (now && now !== before) say(now.replace(/\s+/g, " "));
  }

  function isInUse(part) {
    for (const form of part.querySelectorAll("form")) {
      if (form.contains(document.activeElement)) return true;
      for (const field of form.elements) {
        if (field.type === "radio" && field.checked !== field.defaultChecked) return true;
        if (field.tagName === "INPUT" && field.type !== "hidden" && field.value !== field.defaultValue) return true;
        if (field.tagName === "SELECT" && [...field.options].some((each) => each.selected !== each.defaultSelected)) return true;
      }
    }
    return false;
  }

  function place(part, focused) {
    if (!focused || !part.contains(focused)) return null;
    const href = focused.getAttribute("href");
    return { href, tag: focused.tagName, label: focused.getAttribute("aria-label") };
  }

  function restore(part, focus) {
    if (!focus) return;
    for (const each of part.querySelectorAll(focus.tag)) {
      if (each.getAttribute("href") === focus.href && each.getAttribute("aria-label") === focus.label) {
        each.focus({ preventScroll: true });
        return;
      }
    }
  }

  // Charts.

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  const DAY = 86400, DATE = "\n{D} {MMM} {YYYY}";
  const TIMES = [  // how ticks are labelled: from years down to seconds
    [365 * DAY, "{YYYY}", null, null, null, null, null, null, 1],
    [28 * DAY, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
    [DAY, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
    [60, "{HH}:{mm}", DATE, null, "\n{D} {MMM}", null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", DATE, null, "\n{D} {MMM}", null, null, null, 1],
    [0.001, "{HH}:{mm}:{ss}.{fff}", DATE, null, "\n{D} {MMM}", null, null, null, 1],
  ];

  class Chart {
    constructor(box) {
      this.box = box;
      this.index = Number(box.dataset.index);
      this.plot = null;
      this.got = "";
      new ResizeObserver(() => { if (this.plot) this.plot.setSize(this.size()); }).observe(box);
    }

    size() { return { width: Math.max(200, this.box.clientWidth), height: window.innerWidth < 600 ? 260 : 340 }; }

    async renew() {
      const answer = await fetch(this.box.dataset.chart, { credentials: "same-origin", cache: "no-store" });
      if (!answer.ok || answer.redirected) return;
      const got = await answer.text();
      if (got === this.got) return;
      this.got = got;
      const told = JSON.parse(got)[this.index];
      if (!told) return;
      const data = Chart.data(told);
      this.told = told;
      if (this.plot) this.plot.setData(data);
      else this.draw(told, data);
    }

    // Each stretch is drawn with its lowest and its highest balance, so that no peak is lost.
    static data(told) {
      const columns = [[], [], [], [], [], [], []];
      told.at.forEach((at, i) => {
        const before = i ? told.at[i - 1] : at;
        const low = told.low[i] < told.margin[i], high = told.high[i] > told.margin[i];
        const rows = [];
        if (low) rows.push([before + (at - before) / 3, told.low[i], 0]);
        if (high) rows.push([before + (at - before) * 2 / 3, told.high[i], 0]);
        rows.push([at, told.margin[i], told.departures[i]]);
        for (const [x, y, departs] of rows) {
          const own = x === at;
          columns[0].push(x);
          columns[1].push(y + (own || y === told.low[i] ? told.deposits[i] : 0));
          columns[2].push(y);
          columns[3].push(told.balance[i]);
          columns[4].push(told.paid_in[i]);
          columns[5].push(departs ? y : null);
          columns[6].push(own && told.alarms[i] ? 0 : null);
        }
      });
      return columns;
    }

    draw(told, data) {
      const stepped = uPlot.paths.stepped({ align: 1 });
      const shown = (value) => value === null || value === undefined ? "" : Intl.NumberFormat("en", { maximumSignificantDigits: 4 }).format(value);
      const axis = { stroke: () => colour("--soft"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { stroke: () => colour("--line") } };
      const options = {
        ...this.size(),
        tzDate: (at) => uPlot.tzDate(new Date(at * 1e3), "UTC"),
        legend: { show: false },
        cursor: { drag: { x: true, y: false } },
        scales: { y: { range: (u, low, high) => { const pad = (Math.max(high, 0) - Math.min(low, 0)) * 0.06 || 1; return [Math.min(low, 0) - pad, Math.max(high, 0) + pad]; } } },
        axes: [{ ...axis, values: TIMES, space: 70 }, { ...axis, size: 76, values: (u, values) => values.map((each) => `${told.unit ? told.unit + " " : ""}${shown(each)}`) }],
        series: [
          {},
          { stroke: "transparent", paths: stepped, points: { show: false } },
          { stroke: () => colour("--c-balance"), width: 2.5, paths: stepped, points: { show: false } },
          { stroke: () => colour("--c-next"), width: 1, paths: stepped, points: { show: false } },
          { stroke: () => colour("--c-paid"), width: 1.5, dash: [7, 5], points: { show: false } },
          { stroke: "transparent", points: { show: true, size: 7, fill: () => colour("--c-departure"), stroke: () => colour("--paper"), width: 1 } },
          { stroke: "transparent", points: { show: false } },
        ],
        bands: [{ series: [1, 2], fill: () => colour("--c-deposits") + "80" }],
        hooks: { draw: [(u) => this.floor(u), (u) => this.alarms(u)] },
      };
      this.plot = new uPlot(options, data, this.box);
      for (const canvas of this.box.querySelectorAll("canvas")) canvas.setAttribute("aria-hidden", "true");
    }

    floor(u) {
      const y = u.valToPos(0, "y", true), { left, width } = u.bbox, ctx = u.ctx;
      ctx.save();
      ctx.strokeStyle = colour("--c-floor");
      ctx.lineWidth = 2 * devicePixelRatio;
      ctx.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.beginPath(); ctx.moveTo(left, y); ctx.lineTo(left + width, y); ctx.stroke();
      ctx.restore();
    }

    alarms(u) {
      const [x, marks] = [u.data[0], u.data[6]], size = 6 * devicePixelRatio, ctx = u.ctx;
      ctx.save();
      ctx.fillStyle = colour("--c-floor");
      marks.forEach((mark, i) => {
        if (mark === null) return;
        const at = u.valToPos(x[i], "x", true), foot = u.bbox.top + u.bbox.height;
        ctx.fillRect(at - devicePixelRatio, u.bbox.top, 2 * devicePixelRatio, u.bbox.height);
        ctx.beginPath(); ctx.moveTo(at - size, foot); ctx.lineTo(at + size, foot); ctx.lineTo(at, foot - 1.8 * size); ctx.fill();
      });
      ctx.restore();
    }
  }

  for (const box of document.querySelectorAll(".plot")) charts.push(new Chart(box));
  charts.forEach((chart) => chart.renew().catch(() => {}));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.plot && chart.plot.redraw()));
  show("off", "Connecting");
  listen();
})();
