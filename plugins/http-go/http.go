package main

// wasm-serve's `http` contract: copy this file into your plug-in.

import (
	"encoding/base64"
	"encoding/json"

	"github.com/extism/go-pdk"
)

// Request is what the client sent. Names of headers are in lower case.
type Request struct {
	Method string `json:"method"`
	// As sent, with the query.
	URL string `json:"url"`
	// As sent, without it.
	Path string `json:"path"`
	// What the route's URL names; `*` is what a wildcard stands for.
	Params        map[string]string `json:"params"`
	Query         map[string]Values `json:"query"`
	Headers       map[string]Values `json:"headers"`
	RemoteAddress string            `json:"remoteAddress"`
	RequestID     string            `json:"requestId"`
	Text          string            `json:"body"`
	Base64        []byte            `json:"bodyBase64"`
}

// Values is what was sent once or several times.
type Values []string

func (values *Values) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*values = Values{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(values))
}

// First is empty if there is none.
func (values Values) First() string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// Body has the body's bytes, whatever they are.
func (request *Request) Body() []byte {
	if request.Base64 != nil {
		return request.Base64
	}
	return []byte(request.Text)
}

// Response is an answer. Without a status it is 200.
type Response struct {
	Status  int                 `json:"status,omitempty"`
	Headers map[string][]string `json:"headers,omitempty"`
	// Bytes of the body; their content type is up to the headers.
	Body []byte `json:"-"`
}

func (response Response) MarshalJSON() ([]byte, error) {
	type plain Response
	envelope := struct {
		plain
		Base64 string `json:"bodyBase64,omitempty"`
	}{plain(response), base64.StdEncoding.EncodeToString(response.Body)}
	return json.Marshal(envelope)
}

// Serve makes an Extism function of a handler.
func Serve(handle func(*Request) Response) int32 {
	var request Request
	if err := pdk.InputJSON(&request); err != nil {
		pdk.SetError(err)
		return 1
	}
	if err := pdk.OutputJSON(handle(&request)); err != nil {
		pdk.SetError(err)
		return 1
	}
	return 0
}
