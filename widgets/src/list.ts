// Helpers for lists.

/** The results of `make` for 0, 1, 2, ... */
export const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));
