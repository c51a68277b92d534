package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"interlock/machine"
	"interlock/slice"
)

// settle says what the calls of an operation have cost whose worker was killed
// and which is not tried again, because the slice was cancelled meanwhile. It
// reads what once and the tab have kept, and calls nobody.
func (a *Activities) settle(ctx context.Context, in slice.SettleIn) (slice.Ended, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.Ended{}, err
	}
	out := w.ended(machine.Limited, "it was cut off")
	kept := a.kept(in.Header)
	b, err := os.ReadFile(kept + doneSuffix)
	if err == nil {
		var done slice.Ended
		if err := json.Unmarshal(b, &done); err != nil {
			return slice.Ended{}, fmt.Errorf("%s: %w", kept+doneSuffix, err)
		}
		out.CostMicroUSD, out.Calls, out.Evidence = done.CostMicroUSD, done.Calls, done.Evidence
		return out, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return slice.Ended{}, err
	}
	t, err := readTab(kept)
	if err != nil {
		return slice.Ended{}, err
	}
	t.charge(&out)
	return out, nil
}
