package main

import (
	"strings"

	"github.com/extism/go-pdk"
)

type report struct {
	Count  int    `json:"count"`
	Total  int    `json:"total"`
	Vowels string `json:"vowels"`
}

// Counts the vowels of the input, and of all inputs so far.
//
//go:wasmexport count_vowels
func countVowels() int32 {
	vowels, configured := pdk.GetConfig("vowels")
	if !configured {
		vowels = "aeiouAEIOU"
	}
	count := 0
	for _, letter := range pdk.InputString() {
		if strings.ContainsRune(vowels, letter) {
			count++
		}
	}
	total := pdk.GetVarInt("total") + count
	pdk.SetVarInt("total", total)
	if err := pdk.OutputJSON(report{count, total, vowels}); err != nil {
		pdk.SetError(err)
		return 1
	}
	return 0
}

func main() {}
