package spec

import (
	"bytes"
	_ "embed" // the published schemas are files
)

// A Kind is a kind of document.
type Kind string

// The kinds.
const (
	SliceFile  Kind = "slice"
	PolicyFile Kind = "policy"
)

var (
	//go:embed schema/slice.schema.json
	sliceSchema []byte
	//go:embed schema/policy.schema.json
	policySchema []byte
)

// Schema returns the JSON Schema (2020-12) of a kind of document, or nil if
// there is no such kind. It is for editors: what it accepts can still be
// refused by ParseSlice and ParsePolicy, which know more.
func Schema(k Kind) []byte {
	switch k {
	case SliceFile:
		return bytes.Clone(sliceSchema)
	case PolicyFile:
		return bytes.Clone(policySchema)
	}
	return nil
}
