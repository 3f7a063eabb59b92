package main

import (
	"fmt"
	"strconv"

	"github.com/extism/go-pdk"
)

// visits counts how often each name has come, in whatever thread or process.
//
//go:wasmexport visits
func visits() int32 {
	name := pdk.InputString()
	count, err := countOne(name)
	if err != nil {
		pdk.SetError(err)
		return 1
	}
	pdk.OutputString(fmt.Sprintf("%s: %d\n", name, count))
	return 0
}

func countOne(key string) (int, error) {
	for {
		before, isThere, err := Get(key)
		if err != nil {
			return 0, err
		}
		count, _ := strconv.Atoi(string(before)) // 0 if there is none
		count++
		value := []byte(strconv.Itoa(count))
		var isCounted bool
		if isThere {
			isCounted, err = CompareAndSwap(key, before, value, 0)
		} else {
			isCounted, err = SetIfAbsent(key, value, 0)
		}
		if isCounted || err != nil {
			return count, err // else somebody else was counted meanwhile
		}
	}
}

func main() {}
