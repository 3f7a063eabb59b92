;; A linked module: prints a text of its own memory, which is not the main module's.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "\08\00\00\00\07\00\00\00linked\0a")
  (func (export "print") (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100)))))
