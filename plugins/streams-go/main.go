package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/extism/go-pdk"
)

// hash answers with the SHA-256 and the size of an upload of any size.
//
//go:wasmexport hash
func hash() int32 {
	digest := sha256.New()
	size := 0
	for {
		piece, err := Read()
		if err != nil {
			return fail(err)
		}
		if piece == nil {
			break
		}
		digest.Write(piece)
		size += len(piece)
	}
	pdk.OutputString(fmt.Sprintf("%x %d\n", digest.Sum(nil), size))
	return 0
}

// filter passes on the lines of a CSV file that have the text of the config `keep`, and its first line.
//
//go:wasmexport filter
func filter() int32 {
	text, _ := pdk.GetConfig("keep")
	keep := []byte(text)
	if err := Start(`{"headers":{"content-type":"text/csv"},"trailers":["x-lines"]}`); err != nil {
		return fail(err)
	}
	lines := 0
	passOn := func(line []byte) error {
		if lines > 0 && !bytes.Contains(line, keep) {
			return nil
		}
		lines++
		return Write(line)
	}
	var rest []byte
	for {
		piece, err := Read()
		if err != nil {
			return fail(err)
		}
		if piece == nil {
			break
		}
		rest = append(rest, piece...)
		for {
			end := bytes.IndexByte(rest, '\n') + 1
			if end == 0 {
				break
			}
			if err := passOn(rest[:end]); err != nil {
				return fail(err)
			}
			rest = rest[end:]
		}
	}
	if len(rest) > 0 {
		if err := passOn(rest); err != nil {
			return fail(err)
		}
	}
	if err := Trailers(fmt.Sprintf(`{"x-lines":"%d"}`, lines)); err != nil {
		return fail(err)
	}
	return 0
}

// count sends a number every `interval` milliseconds (a config), up to 10, until the client has gone.
//
//go:wasmexport count
func count() int32 {
	text, _ := pdk.GetConfig("interval")
	interval, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		interval = 1_000
	}
	for number := 1; number <= 10; number++ {
		if Event(fmt.Sprintf(`{"event":"count","id":"%d","data":%d}`, number, number)) != nil {
			return 0 // the client has gone
		}
		_ = Pause(interval)
	}
	return 0
}

// proxy passes requests on to the server of the config `upstream`, and passes its answers back in capitals.
//
//go:wasmexport proxy
func proxy() int32 {
	upstream, _ := pdk.GetConfig("upstream")
	var request struct {
		Method, URL string
		Headers     map[string]any
	}
	if err := pdk.InputJSON(&request); err != nil {
		return fail(err)
	}
	contentType, _ := request.Headers["content-type"].(string)
	head, err := json.Marshal(map[string]any{
		"method":   request.Method,
		"url":      upstream + request.URL,
		"headers":  map[string]string{"content-type": contentType},
		"redirect": "manual",
	})
	if err != nil {
		return fail(err)
	}
	started := false
	if err := pass(string(head), &started); err != nil {
		if started || errors.Is(err, StreamError(-1)) {
			return fail(err)
		}
		_ = Start(`{"status":502}`) // before the start, the client can get a proper answer
	}
	return 0
}

func pass(head string, started *bool) error {
	upstream, err := Open(head)
	if err != nil {
		return err
	}
	defer upstream.Close()
	passBack := func() (bool, error) {
		if !*started {
			head, err := upstream.Response()
			if err != nil {
				return false, err
			}
			if err := Start(head); err != nil {
				return false, err
			}
			*started = true
		}
		piece, err := upstream.Read()
		if err != nil || piece == nil {
			return false, err
		}
		return true, Write(capitals(piece))
	}
	for {
		piece, err := Read()
		if err != nil {
			return err
		}
		if piece == nil {
			break
		}
		for isSent := false; !isSent; {
			if isSent, err = upstream.Write(piece); err != nil {
				return err
			}
			if isSent {
				break
			}
			// The server answers while it reads, or without reading all.
			if isMore, err := passBack(); err != nil || !isMore {
				return err
			}
		}
	}
	if err := upstream.End(); err != nil {
		return err
	}
	for {
		if isMore, err := passBack(); err != nil || !isMore {
			return err
		}
	}
}

// capitals changes ASCII only: a piece may end within any other character.
func capitals(piece []byte) []byte {
	for at, char := range piece {
		if 'a' <= char && char <= 'z' {
			piece[at] -= 'a' - 'A'
		}
	}
	return piece
}

func fail(err error) int32 {
	pdk.SetError(err)
	return 1
}

func main() {}
