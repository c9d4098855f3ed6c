;; y += W x, for W of `rows` times `cols` values in rows; `cols` is a multiple of 8.
(module
  (memory (export "memory") 1)
  (func (export "product") (param $W i32) (param $x i32) (param $y i32) (param $rows i32) (param $cols i32)
    (local $a v128) (local $b v128) (local $at i32) (local $end i32)
    (local.set $end (i32.add (local.get $x) (i32.shl (local.get $cols) (i32.const 2))))
    (loop $row
      (local.set $a (v128.const f32x4 0 0 0 0))
      (local.set $b (v128.const f32x4 0 0 0 0))
      (local.set $at (local.get $x))
      (loop $col
        (local.set $a (f32x4.add (local.get $a) (f32x4.mul (v128.load (local.get $W)) (v128.load (local.get $at)))))
        (local.set $b (f32x4.add (local.get $b)
          (f32x4.mul (v128.load offset=16 (local.get $W)) (v128.load offset=16 (local.get $at)))))
        (local.set $W (i32.add (local.get $W) (i32.const 32)))
        (local.set $at (i32.add (local.get $at) (i32.const 32)))
        (br_if $col (i32.lt_u (local.get $at) (local.get $end))))
      (local.set $a (f32x4.add (local.get $a) (local.get $b)))
      (f32.store (local.get $y)
        (f32.add (f32.load (local.get $y))
          (f32.add
            (f32.add (f32x4.extract_lane 0 (local.get $a)) (f32x4.extract_lane 1 (local.get $a)))
            (f32.add (f32x4.extract_lane 2 (local.get $a)) (f32x4.extract_lane 3 (local.get $a))))))
      (local.set $y (i32.add (local.get $y) (i32.const 4)))
      (local.set $rows (i32.sub (local.get $rows) (i32.const 1)))
      (br_if $row (local.get $rows)))))
