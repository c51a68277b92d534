package activities

import (
	"context"
	"sync/atomic"
)

// note is the one line that a heartbeat carries: what the activity does now.
type note struct{ text atomic.Pointer[string] }

type noteKey struct{}

func (n *note) get() string {
	if s := n.text.Load(); s != nil {
		return *s
	}
	return ""
}

// tell sets what the activity's next heartbeat says.
func tell(ctx context.Context, text string) {
	if n, ok := ctx.Value(noteKey{}).(*note); ok {
		n.text.Store(&text)
	}
}
