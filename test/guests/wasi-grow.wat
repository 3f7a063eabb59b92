;; Grows its memory, and writes from the new page to standard output.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "write") (result i32)
    (local $page i32)
    (local.set $page (i32.mul (memory.grow (i32.const 1)) (i32.const 65536)))
    (i32.store16 (local.get $page) (i32.const 0x0a78)) ;; "x\n"
    (i32.store (i32.const 0) (local.get $page))
    (i32.store (i32.const 4) (i32.const 2))
    (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
