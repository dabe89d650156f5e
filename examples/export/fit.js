// Fit a decay to points, and draw it.

import {load} from "./exported.js";

const model = ([height, rate, floor], t) => height * Math.exp(-rate * t) + floor;

// Return the solution of a linear system of three equations, by Cramer's rule.
function solved(a, b) {
  const det = (m) =>
    m[0] * (m[4] * m[8] - m[5] * m[7]) - m[1] * (m[3] * m[8] - m[5] * m[6]) + m[2] * (m[3] * m[7] - m[4] * m[6]);
  return [0, 1, 2].map((column) => det(a.map((x, k) => (k % 3 === column ? b[Math.floor(k / 3)] : x))) / det(a));
}

// Newton steps, shortened by a damping that is larger after each step that does not lead down.
function fitted(decay, points, params) {
  let [[value], gradient, hessian] = decay(params, points);
  for (let damping = 1e-2; Math.hypot(...gradient) > 1e-12 && damping < 1e12; ) {
    const step = solved(hessian.map((x, k) => (k % 4 ? x : x + damping)), gradient);
    const next = params.map((x, k) => x - step[k]);
    const then = decay(next, points);
    const isBetter = then[0][0] < value;
    damping *= isBetter ? 0.1 : 10;
    if (isBetter) [params, [[value], gradient, hessian]] = [next, then];
  }
  return {params, value};
}

function draw(canvas, points, params) {
  const context = canvas.getContext("2d");
  const x = (t) => 20 + (t / 4.2) * (canvas.width - 40), y = (v) => canvas.height - 20 - (v / 3.5) * (canvas.height - 40);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = "#808080";
  for (let k = 0; k < points.length; k += 2) context.fillRect(x(points[k]) - 2, y(points[k + 1]) - 2, 4, 4);
  context.strokeStyle = "#d02020";
  context.lineWidth = 3;
  context.beginPath();
  for (let t = 0; t <= 4; t += 0.02) context.lineTo(x(t), y(model(params, t)));
  context.stroke();
}

const decay = await load("decay");
const canvas = document.querySelector("canvas");
const points = (await (await fetch("points.txt")).text()).trim().split(/\s+/).map(Number);
let params = [1, 1, 0];

function show() {
  const found = fitted(decay, points, params);
  params = found.params;
  document.querySelector("output").textContent = params.join(" ");
  draw(canvas, points, params);
}

// A click moves the nearest point to the mouse, and the fit follows.
canvas.addEventListener("click", (event) => {
  const t = ((event.offsetX - 20) / (canvas.width - 40)) * 4.2;
  const nearest = Math.min(points.length / 2 - 1, Math.max(0, Math.round((t / 4) * (points.length / 2 - 1))));
  points[2 * nearest + 1] = ((canvas.height - 20 - event.offsetY) / (canvas.height - 40)) * 3.5;
  show();
});
show();
