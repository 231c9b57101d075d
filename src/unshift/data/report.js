"use strict";
// The page is whole without this. It shows other candidates, tells rows apart, saves the table.
// Names and values from the data are only ever set as text.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const stage = document.getElementById("stage"), tip = document.getElementById("tip");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const state = { candidate: 0, plane: 0, only: null };

  // Every view: its marks, in the order of the rows, and where they are.
  const views = all(".view", stage).map((box) => ({
    box,
    plane: Number(box.parentNode.dataset.plane),
    after: box.dataset.view === "after",
    panel: box.querySelector(".panel"),
    source: all(".source use", box),
    target: all(".target use", box),
    rings: all("[data-i]", box),
    places: {},
  }));
  const place = (mark) => [Number(mark.getAttribute("x")), Number(mark.getAttribute("y"))];
  for (const view of views) {
    view.places.source = view.source.map(place);
    view.places.target = view.target.map(place);
    view.ring = document.createElementNS(view.panel.namespaceURI, "circle");
    view.ring.setAttribute("class", "near");
    view.ring.setAttribute("r", "8");
    view.ring.setAttribute("visibility", "hidden");
    view.panel.append(view.ring);
  }

  const put = (mark, at) => { mark.setAttribute("x", at[0]); mark.setAttribute("y", at[1]); };
  const kind = (style) =>
    data.scale ? `q${style}` : style < 0 ? "ko" : `k${style % data.coloured}`;
  const shape = (style) => data.scale || style < 0 ? 0
    : (style + 3 * Math.floor(style / data.coloured)) % data.coloured;

  function move(view, flat) {
    const from = view.places.target;
    const to = from.map((_, i) => [flat[2 * i], flat[2 * i + 1]]);
    view.places.target = to;
    const run = view.run = {};
    const draw = (share) => {
      const at = (i) => [0, 1].map((k) => from[i][k] + share * (to[i][k] - from[i][k]));
      view.target.forEach((mark, i) => put(mark, at(i)));
      view.rings.forEach((ring) => put(ring, at(Number(ring.dataset.i))));
    };
    if (still || document.hidden) return draw(1);
    const began = performance.now();
    const step = (now) => {
      if (view.run !== run) return;
      const t = Math.min(1, (now - began) / 500);
      draw(t === 1 ? 1 : t * t * (3 - 2 * t));
      if (t < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  function show(candidate) {
    state.candidate = candidate;
    const seen = data.candidates[candidate];
    for (const view of views) {
      view.target.forEach((mark, i) => {
        const style = seen.styles[i];
        mark.setAttribute("class", kind(style));
        mark.setAttribute("href", `#m${shape(style)}`);
      });
      if (!view.after) continue;
      const plane = data.planes[view.plane], beyond = plane.beyond[candidate];
      move(view, plane.after[candidate]);
      view.box.querySelector("h3").textContent = `After: ${seen.kind}`;
      view.box.querySelector(".beyond").textContent =
        beyond ? `Target rows beyond the edge: ${beyond}.` : "";
    }
    for (const part of all("[data-for]")) part.hidden = Number(part.dataset.for) !== candidate;
    for (const button of all("[data-show]")) {
      const mine = Number(button.dataset.show) === candidate;
      button.setAttribute("aria-pressed", mine);
      button.closest("tr").classList.toggle("shown", mine);
    }
    document.getElementById("candidate").value = candidate;
    single(state.only);
  }

  // One class alone; null for all.
  function single(style) {
    state.only = style;
    const faint = (mark, its) => mark.classList.toggle("faint", style !== null && its !== style);
    for (const view of views) {
      view.source.forEach((mark, i) => faint(mark, data.source.styles[i]));
      view.target.forEach((mark, i) => faint(mark, data.candidates[state.candidate].styles[i]));
    }
    for (const button of all("[data-style]", stage))
      button.setAttribute("aria-pressed", Number(button.dataset.style) === style);
  }

  const name = (value) => data.classes === null ? String(value)
    : value < 0 ? "unknown" : data.classes[value];

  function words(side, i) {
    const ids = data[side].ids[i], lines = [`${side} row ${data[side].rows[i]}`];
    if (ids) lines.push(ids);
    if (side === "source") lines.push(`${data.label}: ${name(data.source.labels[i])}`);
    else {
      const seen = data.candidates[state.candidate];
      const sure = seen.sure ? `, ${seen.sure[i]} %` : "";
      lines.push(`predicted ${data.label}: ${name(seen.predicted[i])}${sure}`);
      if (data.target.given[i] !== null) lines.push(`given: ${data.target.given[i]}`);
    }
    return lines.join("\n");
  }

  function say(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${y + box.height + 26 > innerHeight ? y - box.height - 12 : y + 14}px`;
  }
  function hush() {
    tip.hidden = true;
    for (const view of views) view.ring.setAttribute("visibility", "hidden");
  }
  // The same row is marked in both panels, so that one sees where it went.
  function point(view, side, i, x, y) {
    hush();
    for (const { plane, places, ring } of views) {
      if (plane !== view.plane) continue;
      ring.setAttribute("cx", places[side][i][0]);
      ring.setAttribute("cy", places[side][i][1]);
      ring.setAttribute("visibility", "visible");
    }
    say(words(side, i), x, y);
  }

  function nearest(view, x, y) {
    let best = null, least = 16 * 16;
    for (const side of ["target", "source"]) {
      if (view.panel.querySelector(`.${side}`).hasAttribute("hidden")) continue;
      view.places[side].forEach(([px, py], i) => {
        const gap = (px - x) ** 2 + (py - y) ** 2;
        if (gap < least && !view[side][i].classList.contains("faint")) {
          least = gap;
          best = [side, i];
        }
      });
    }
    return best;
  }

  for (const view of views) {
    const over = (event) => {
      const box = view.panel.getBoundingClientRect();
      const ratio = view.panel.viewBox.baseVal.width / box.width;
      const found = nearest(view, (event.clientX - box.left) * ratio,
        (event.clientY - box.top) * ratio);
      if (found) point(view, ...found, event.clientX, event.clientY);
      else hush();
    };
    view.panel.addEventListener("pointermove", over);
    view.panel.addEventListener("pointerdown", over);
    view.panel.addEventListener("pointerleave", hush);
    // From row to row with the arrow keys.
    let at = -1;
    view.panel.setAttribute("tabindex", "0");
    view.panel.setAttribute("aria-description", "Left and right arrow keys go from row to row.");
    view.panel.addEventListener("blur", hush);
    view.panel.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], n = view.target.length;
      if (event.key === "Escape") hush();
      if (!step) return;
      event.preventDefault();
      at = at < 0 ? (step > 0 ? 0 : n - 1) : (at + step + n) % n;
      const box = view.target[at].getBoundingClientRect();
      point(view, "target", at, box.right, box.bottom);
    });
  }

  for (const part of all("[data-tip]")) {
    part.addEventListener("pointermove", (e) => say(part.dataset.tip, e.clientX, e.clientY));
    part.addEventListener("pointerleave", hush);
  }
  document.addEventListener("scroll", hush, { passive: true });

  const on = (id, event, run) => {
    const control = document.getElementById(id);
    if (control) control.addEventListener(event, () => run(control));
  };
  on("candidate", "change", (control) => show(Number(control.value)));
  on("plane", "change", (control) => {
    state.plane = Number(control.value);
    for (const box of all("[data-plane]", stage))
      box.hidden = Number(box.dataset.plane) !== state.plane;
  });
  for (const box of all("[data-side]", stage))
    box.addEventListener("change", () => {
      const sides = all(`.panel .${box.dataset.side}`, stage);
      for (const side of sides) side.toggleAttribute("hidden", !box.checked);
      hush();
    });
  for (const button of all("[data-style]", stage)) {
    button.disabled = false;
    const style = Number(button.dataset.style);
    button.addEventListener("click", () => single(state.only === style ? null : style));
  }
  for (const button of all("[data-show]")) {
    button.disabled = false;
    button.addEventListener("click", () => {
      show(Number(button.dataset.show));
      stage.scrollIntoView({ behavior: still ? "auto" : "smooth" });
    });
  }

  const quoted = (cell) => /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
  on("save", "click", () => {
    const lines = data.labelling.map((cells) => cells.map(quoted).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }));
    link.download = "rows-to-label.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  for (const control of all(".controls")) control.hidden = false;
  show(0);
})();
