package activities

import (
	"context"
	"fmt"
	"sync"
)

// slots bounds how many agents a host runs at once. It lives inside the
// activity, not in the queue, so that a busy host is never taken for a lost one.
type slots struct {
	mu      sync.Mutex
	free    int
	waiting []chan struct{}
}

func newSlots(n int) *slots { return &slots{free: max(n, 1)} }

// take waits for a slot, first come first served, and tells its place in line.
func (s *slots) take(ctx context.Context) (release func(), err error) {
	s.mu.Lock()
	if s.free > 0 && len(s.waiting) == 0 {
		s.free--
		s.mu.Unlock()
		return s.giveBack, nil
	}
	turn := make(chan struct{})
	s.waiting = append(s.waiting, turn)
	place := len(s.waiting)
	s.mu.Unlock()
	tell(ctx, fmt.Sprintf("waiting for an agent slot, place %d in line when it came", place))
	select {
	case <-turn:
		return s.giveBack, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.waiting {
		if w == turn {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return nil, context.Cause(ctx)
		}
	}
	s.next() // the slot was handed over at the same moment
	return nil, context.Cause(ctx)
}

func (s *slots) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next()
}

// next hands a slot to the first in line, or makes it free.
func (s *slots) next() {
	if len(s.waiting) == 0 {
		s.free++
		return
	}
	close(s.waiting[0])
	s.waiting = s.waiting[1:]
}
