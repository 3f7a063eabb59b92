package main

// wasm-serve's key-value store: copy this file into your plug-in.

import (
	"fmt"

	"github.com/extism/go-pdk"
)

//go:wasmimport wasm-serve:kv get
func kvGet(key uint64) int64

//go:wasmimport wasm-serve:kv set
func kvSet(key, value, ttlMs uint64) int64

//go:wasmimport wasm-serve:kv delete
func kvDelete(key uint64) int64

//go:wasmimport wasm-serve:kv set_if_absent
func kvSetIfAbsent(key, value, ttlMs uint64) int64

//go:wasmimport wasm-serve:kv compare_and_swap
func kvCompareAndSwap(key, expected, value, ttlMs uint64) int64

// StoreError is a code of the store; -7: it cannot be reached.
type StoreError int64

func (code StoreError) Error() string { return fmt.Sprintf("the store failed: %d", int64(code)) }

const (
	notFound = -1
	conflict = -2
)

// Get returns a value, and whether there is one.
func Get(key string) ([]byte, bool, error) {
	name := pdk.AllocateString(key)
	defer name.Free()
	at := kvGet(name.Offset())
	switch {
	case at == notFound:
		return nil, false, nil
	case at < 0:
		return nil, false, StoreError(at)
	case at == 0:
		return nil, true, nil
	}
	found := pdk.FindMemory(uint64(at))
	defer found.Free()
	return found.ReadBytes(), true, nil
}

// Set sets a value, for some milliseconds; 0: for ever.
func Set(key string, value []byte, ttlMs uint64) error {
	_, err := write(key, value, func(key, value uint64) int64 { return kvSet(key, value, ttlMs) })
	return err
}

// Delete removes a value. It returns whether there was one.
func Delete(key string) (bool, error) {
	name := pdk.AllocateString(key)
	defer name.Free()
	return isDone(kvDelete(name.Offset()), notFound)
}

// SetIfAbsent sets a value if there is none. It returns whether there was none.
func SetIfAbsent(key string, value []byte, ttlMs uint64) (bool, error) {
	return write(key, value, func(key, value uint64) int64 { return kvSetIfAbsent(key, value, ttlMs) })
}

// CompareAndSwap sets a value if the present one is the expected one. It returns whether it was.
func CompareAndSwap(key string, expected, value []byte, ttlMs uint64) (bool, error) {
	before, free := allocate(expected)
	defer free()
	return write(key, value, func(key, value uint64) int64 { return kvCompareAndSwap(key, before, value, ttlMs) })
}

func write(key string, value []byte, run func(key, value uint64) int64) (bool, error) {
	name := pdk.AllocateString(key)
	defer name.Free()
	block, free := allocate(value)
	defer free()
	return isDone(run(name.Offset(), block), conflict)
}

// allocate makes a block; 0 means no bytes.
func allocate(bytes []byte) (uint64, func()) {
	if len(bytes) == 0 {
		return 0, func() {}
	}
	block := pdk.AllocateBytes(bytes)
	return block.Offset(), block.Free
}

func isDone(code, otherwise int64) (bool, error) {
	if code < 0 && code != otherwise {
		return false, StoreError(code)
	}
	return code >= 0, nil
}
