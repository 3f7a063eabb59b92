// Sends bodies with net/http over HTTP/2, and prints each answer, or the error of the client, on a line.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	ca, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true},
	}
	for _, url := range os.Args[2:] {
		fmt.Println(post(client, url))
	}
}

func post(client *http.Client, url string) string {
	answer, err := client.Post(url, "application/octet-stream", bytes.NewReader(make([]byte, 3_000_000)))
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(answer.Proto, " ", answer.StatusCode, " ", len(body) > 0)
}
