// Numbers and times in words. Pure.

const UNKNOWN = "–";

function known(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// 4.2 s, 3 min 20 s, 5 h 12 min, 3 d 4 h
function lasting(seconds) {
  if (!known(seconds)) return UNKNOWN;
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return whole % 60 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return hours % 24 ? `${Math.floor(hours / 24)} d ${hours % 24} h` : `${Math.floor(hours / 24)} d`;
}

// 0.034, 0.47, 1.25, 34.1, 1,234, 1.2 M
function amount(value) {
  if (!known(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e6) return `${trimmed(value / 1e6, 1)} M`;
  if (size >= 100) return Math.round(value).toLocaleString("en");
  if (size >= 10) return trimmed(value, 1);
  return size >= 1 ? trimmed(value, 2) : String(Number(value.toPrecision(2)));
}

function percent(share) {
  return known(share) ? `${amount(100 * share)} %` : UNKNOWN;
}

function trimmed(value, digits) {
  return String(Number(value.toFixed(digits)));
}

function milliseconds(value) {
  if (!known(value)) return UNKNOWN;
  return value >= 10000 ? `${amount(value / 1000)} s` : `${amount(value)} ms`;
}

const two = (number) => String(number).padStart(2, "0");

// The time of day here; with the date where it is not today's.
function moment(unixSeconds) {
  if (!known(unixSeconds)) return UNKNOWN;
  const at = new Date(unixSeconds * 1000);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

function clock(unixSeconds) {
  const at = new Date(unixSeconds * 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}`;
}

function iso(unixSeconds) {
  return known(unixSeconds) ? new Date(unixSeconds * 1000).toISOString() : "";
}

function counted(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// Each with a full stop at its end, one after the other.
function sentences(...texts) {
  return texts.filter(Boolean).map((text) => (/[.!?…]$/.test(text) ? text : `${text}.`)).join(" ");
}
