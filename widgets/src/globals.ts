// Functions of the language that the views call hundreds of times. The build substitutes these names for the dotted ones (`inject` in build.mjs),
// which a minifier must not do by itself: it saves 4 kB, and the sources stay readable.

const { abs, ceil, exp, floor, log, max, min, round, sqrt } = Math,
  { isFinite, isInteger, isNaN } = Number,
  { assign, entries, fromEntries, keys } = Object,
  { stringify } = JSON,
  { from, isArray } = Array,
  text = String,
  number = Number;

export {
  abs as "Math.abs",
  ceil as "Math.ceil",
  exp as "Math.exp",
  floor as "Math.floor",
  log as "Math.log",
  max as "Math.max",
  min as "Math.min",
  round as "Math.round",
  sqrt as "Math.sqrt",
  isFinite as "Number.isFinite",
  isInteger as "Number.isInteger",
  isNaN as "Number.isNaN",
  from as "Array.from",
  isArray as "Array.isArray",
  assign as "Object.assign",
  entries as "Object.entries",
  fromEntries as "Object.fromEntries",
  keys as "Object.keys",
  stringify as "JSON.stringify",
  text as String,
  number as Number,
};
