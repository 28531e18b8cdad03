// Numbers as people read them: three digits, a unit, and a dash where there is nothing to say.

export const NOTHING = "–";
const SPACE = "\u202f"; // narrow, and not broken at the end of a line

const known = (number) => number !== null && number !== undefined && Number.isFinite(number);

/** 1234.5 -> "1,235", 12.34 -> "12.3", 0.1234 -> "0.12" */
export function digits(number) {
  if (!known(number)) return NOTHING;
  const size = Math.abs(number);
  const places = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return number.toLocaleString("en", { minimumFractionDigits: size === 0 ? 0 : places, maximumFractionDigits: places });
}

export const whole = (number) => (known(number) ? Math.round(number).toLocaleString("en") : NOTHING);

// Scale and unit of the first step that the number reaches.
function scaled(number, steps) {
  if (!known(number)) return [NOTHING, ""];
  const [size, unit] = steps.find(([least]) => Math.abs(number) >= least) ?? steps.at(-1);
  return [number === 0 ? "0" : digits(number / size), unit];
}

const TIMES = [[3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"]];
const BYTES = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
const COUNTS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];

const joined = ([number, unit]) => (unit ? number + SPACE + unit : number);

export const seconds = (number) => joined(number === 0 ? ["0", "s"] : scaled(number, TIMES));
export const milliseconds = (number) => seconds(known(number) ? number / 1000 : null);
export const bytes = (number) => joined(scaled(number, BYTES));
/** 12345 -> "12.3 k"; small ones are whole. */
export const count = (number) => (known(number) && Math.abs(number) < 1e4 ? whole(number) : joined(scaled(number, COUNTS)));
export const percent = (share) => (known(share) ? (share * 100).toFixed(share >= 0.0995 || share === 0 ? 0 : 1) + SPACE + "%" : NOTHING);

/** A time ago, or a duration: "45 s", "12 min", "3 h 20 min", "5 d 4 h". */
export function duration(number) {
  if (!known(number)) return NOTHING;
  const total = Math.max(0, Math.floor(number));
  const [days, hours, minutes] = [Math.floor(total / 86400), Math.floor(total / 3600) % 24, Math.floor(total / 60) % 60];
  if (days) return `${days}${SPACE}d ${hours}${SPACE}h`;
  if (hours) return `${hours}${SPACE}h ${minutes}${SPACE}min`;
  if (minutes) return `${minutes}${SPACE}min`;
  return `${total}${SPACE}s`;
}

export const clock = (date) => date.toLocaleTimeString("en-GB");
