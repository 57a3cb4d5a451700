// Numbers, times and texts as people read them. Names, messages and logs are strangers' texts: `clean` makes what is
// invisible in them visible, and Preact escapes the rest.

const DASH = "–";

// Control characters, those that turn the direction of writing, and those without a width, which can make a name look like another.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

export function clean(text) {
  return String(text ?? "").replace(HIDDEN, (character) => {
    const code = character.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  });
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return DASH;
  const whole = Math.max(0, Math.round(seconds));
  const days = Math.floor(whole / 86400);
  const hours = Math.floor(whole / 3600) % 24;
  const minutes = Math.floor(whole / 60) % 60;
  const two = (number) => String(number).padStart(2, "0");
  if (days) return `${days}d ${two(hours)}h`;
  if (hours) return `${hours}h ${two(minutes)}m`;
  if (minutes) return `${minutes}m ${two(whole % 60)}s`;
  return `${whole}s`;
}

const THIN = "\u202f";

export function count(number) {
  if (number === null || number === undefined || !Number.isFinite(number)) return DASH;
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

// Three significant digits, with a unit's prefix from 10,000 on.
export function quantity(number) {
  if (number === null || number === undefined || !Number.isFinite(number)) return DASH;
  const size = Math.abs(number);
  if (size !== 0 && size < 0.001) return number.toExponential(2);
  if (size < 10) return trim(number.toFixed(3));
  if (size < 100) return trim(number.toFixed(1));
  if (size < 10000) return count(number);
  for (const [limit, suffix] of [[1e6, "k"], [1e9, "M"], [1e12, "G"], [Infinity, "T"]]) {
    if (size < limit) {
      const scaled = number / (limit === Infinity ? 1e12 : limit / 1000);
      return `${Math.abs(scaled) < 100 ? trim(scaled.toFixed(1)) : count(scaled)}${THIN}${suffix}`;
    }
  }
  return DASH;
}

function trim(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

// A metric such as a loss: four significant digits.
export function metric(number) {
  if (number === null || number === undefined || !Number.isFinite(number)) return DASH;
  const size = Math.abs(number);
  if (size === 0) return "0";
  if (size < 0.001 || size >= 1e6) return number.toExponential(3);
  return trim(number.toPrecision(4));
}

export function percent(number, digits = 0) {
  return number === null || number === undefined || !Number.isFinite(number) ? DASH : `${number.toFixed(digits)}${THIN}%`;
}

export function memory(megabytes) {
  if (megabytes === null || megabytes === undefined || !Number.isFinite(megabytes)) return DASH;
  if (megabytes >= 10240) return `${trim((megabytes / 1024).toFixed(1))}${THIN}GB`;
  if (megabytes >= 1) return `${count(megabytes)}${THIN}MB`;
  return megabytes ? "<1\u202fMB" : `0${THIN}MB`;
}

export function bytes(number) {
  return number < 1024 ? `${number}${THIN}B` : number < 1048576 ? `${count(number / 1024)}${THIN}KB` : memory(number / 1048576);
}

export function cpus(cores) {
  return cores === null || cores === undefined ? DASH : trim(cores.toFixed(cores < 10 ? 2 : 1));
}

export function plural(number, word, many = `${word}s`) {
  return `${count(number)} ${number === 1 ? word : many}`;
}

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const fullFormat = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });

export function clock(time) {
  return time ? clockFormat.format(time * 1000) : DASH;
}

// With the day where it is not today's.
export function moment(time, today) {
  if (!time) return DASH;
  const day = dayFormat.format(time * 1000);
  return day === dayFormat.format(today * 1000) ? clock(time) : `${day} ${clock(time)}`;
}

export function fullTime(time) {
  return time ? fullFormat.format(time * 1000) : "";
}
