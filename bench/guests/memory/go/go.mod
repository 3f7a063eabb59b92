module memory

go 1.24

require (
	github.com/extism/go-pdk v1.1.3
	github.com/wasilibs/nottinygc v0.7.1
)

require github.com/magefile/mage v1.14.0 // indirect
