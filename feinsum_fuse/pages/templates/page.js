"use strict";
(() => {
  const data = document.getElementById("charts");
  if (data && window.Plotly) {
    for (const [key, chart] of Object.entries(JSON.parse(data.textContent))) {
      const figure = document.getElementById("chart-" + key);
      const place = figure && figure.querySelector(".interactive");
      if (!place) continue;
      place.hidden = false;
      Plotly.newPlot(place, chart.data, chart.layout, {responsive: true, displaylogo: false})
        .then(() => figure.classList.add("live"), () => { place.hidden = true; });
    }
  }
  const mark = (section, loops, on) => {
    for (const other of section.querySelectorAll("[data-loops]")) {
      const shared = other.dataset.loops.split(" ").some(loop => loops.includes(loop));
      other.classList.toggle("chosen", on && shared);
    }
  };
  for (const section of document.querySelectorAll(".beside")) {
    for (const one of section.querySelectorAll("[data-loops]")) {
      const loops = one.dataset.loops.split(" ");
      for (const [event, on] of [["mouseenter", true], ["focusin", true], ["mouseleave", false], ["focusout", false]]) {
        one.addEventListener(event, () => mark(section, loops, on));
      }
    }
  }
})();
