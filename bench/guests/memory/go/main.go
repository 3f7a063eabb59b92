// The three workloads of bench/guest-memory.ts, for Go and TinyGo. The input is a number, and makes the answers differ.
package main

import (
	"strconv"
	"strings"

	"github.com/extism/go-pdk"
)

// Twenty strings of 100 kB, each dead when the next is made.
//
//go:wasmexport strings
func stringsExport() int32 {
	seed := pdk.InputString()
	total := 0
	for i := 0; i < 20; i++ {
		unit := seed + "-" + strconv.Itoa(i) + ";"
		text := strings.Repeat(unit, 100_000/len(unit))
		total += len(text) + int(text[len(text)-1-i])
	}
	return answer(int64(total))
}

type node struct {
	value       int64
	left, right *node
}

// Lives as long as the instance.
var kept = grow(12, 1)

// Two trees of 2,047 nodes, beside one of 8,191 that lives on.
//
//go:wasmexport trees
func trees() int32 {
	seed, _ := strconv.ParseInt(pdk.InputString(), 10, 64)
	total := kept.right.value
	for i := int64(0); i < 2; i++ {
		total += grow(10, seed+i).sum()
	}
	return answer(total)
}

func grow(depth int, value int64) *node {
	if depth == 0 {
		return &node{value: value}
	}
	return &node{value, grow(depth-1, 2*value), grow(depth-1, 2*value+1)}
}

func (tree *node) sum() int64 {
	if tree == nil {
		return 0
	}
	return tree.value + tree.left.sum() + tree.right.sum()
}

// A map from 500 short strings to as many others.
//
//go:wasmexport words
func words() int32 {
	seed, _ := strconv.Atoi(pdk.InputString())
	words := map[string]string{}
	for i := 0; i < 500; i++ {
		words["word"+strconv.Itoa(seed+i)] = "value" + strconv.Itoa(i)
	}
	total := seed
	for i := 0; i < 500; i++ {
		value := words["word"+strconv.Itoa(seed+i*7%500)]
		total += len(value) + int(value[len(value)-1])
	}
	return answer(int64(total))
}

func answer(total int64) int32 {
	pdk.OutputString(strconv.FormatInt(total, 10))
	return 0
}

func main() {}
