package slice

import (
	"bytes"
	"encoding/json"
)

// UnmarshalJSON never fails on a JSON document: what does not fit is in Wrong.
// Any Temporal client can start a slice, and an input that cannot be read has
// to end it with a word on why.
//
// A key that is not known is refused, since it is likely a misspelled one; in
// the state of a run before, it may be one that another version has.
func (in *Input) UnmarshalJSON(b []byte) error {
	type plain Input
	read := func(unknown bool) (Input, error) {
		var p plain
		dec := json.NewDecoder(bytes.NewReader(b))
		if !unknown {
			dec.DisallowUnknownFields()
		}
		err := dec.Decode(&p)
		return Input(p), err
	}
	v, err := read(true)
	if err == nil && v.Carry == nil {
		v, err = read(false)
	}
	if err != nil {
		v = Input{Wrong: "the input of the workflow is no slice: " + err.Error()}
	}
	*in = v
	return nil
}
