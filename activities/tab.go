package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"interlock/activities/agent"
	"interlock/slice"
)

// tab is what the calls of one operation have cost. It is on the disk before a
// call begins and again when it has ended, so that a call whose end nobody saw
// is charged its reservation.
type tab struct {
	a    *Activities
	path string
	list []item
}

// item is one call.
type item struct {
	slice.Called
	// ReserveMicroUSD is what the call is charged as long as it is not settled.
	ReserveMicroUSD int64 `json:"reserve_micro_usd"`
	Settled         bool  `json:"settled,omitempty"`
}

const tabSuffix = ".calls"

func (a *Activities) tab(ctx context.Context, path string) (*tab, error) {
	t := &tab{a: a, path: path + tabSuffix}
	b, err := a.recall(ctx, t.path)
	if err != nil || b == nil {
		return t, err
	}
	if err := json.Unmarshal(b, &t.list); err != nil {
		return nil, fmt.Errorf("%s: %w", t.path, err)
	}
	return t, nil
}

// readTab reads a tab that no process of this host writes to any more.
func readTab(path string) (t tab, err error) {
	b, err := os.ReadFile(path + tabSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &t.list)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path+tabSuffix, err)
	}
	return t, err
}

// reserve notes that a call is about to begin.
func (t *tab) reserve(c slice.Called, amount int64) error {
	c.Class = unsettled
	t.list = append(t.list, item{Called: c, ReserveMicroUSD: amount})
	return t.write()
}

// unsettled is the class of a call whose end nobody saw.
const unsettled = "lost"

// settle notes how the last call ended, and what it has cost.
func (t *tab) settle(answer agent.Answer) error {
	i := &t.list[len(t.list)-1]
	i.Settled, i.Class, i.Model = true, string(answer.Class), answer.Model
	i.Fresh = i.Fresh || answer.FellBack
	i.CostMicroUSD = answer.CostMicroUSD
	if i.CostMicroUSD < 0 || i.CostMicroUSD > absurd {
		i.CostMicroUSD = i.ReserveMicroUSD
	}
	return t.write()
}

// absurd is a cost of one call that nobody believes, in millionths of a US
// dollar.
const absurd = 1_000_000_000_000

func (t *tab) write() error {
	b, err := json.Marshal(t.list)
	if err != nil {
		return err
	}
	return t.a.keep(t.path, b)
}

// total is what the operation has cost so far.
func (t *tab) total() (sum int64) {
	for _, c := range t.calls() {
		sum += c.CostMicroUSD
	}
	return sum
}

// calls are the calls so far, each with what it is charged.
func (t *tab) calls() (all []slice.Called) {
	for _, i := range t.list {
		if !i.Settled {
			i.CostMicroUSD = i.ReserveMicroUSD
		}
		all = append(all, i.Called)
	}
	return all
}

// charge puts what the calls have cost into how the step ended.
func (t *tab) charge(e *slice.Ended) {
	e.Calls, e.CostMicroUSD = t.calls(), t.total()
}
