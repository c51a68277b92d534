package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"interlock/slice"
)

func (a *app) raiseCommand() *cobra.Command {
	usd := ""
	var x slice.Raised
	var d delivery
	c := &cobra.Command{
		Use:   "raise ID --usd N",
		Short: "Raise what a slice may cost",
		Long: `Raise sets the cap of a slice that is at work, or of one of its roles, to N dollars
in all, not N more. A slice that waits for money goes on if that covers the call
that is due. The same cap may be sent twice; a lower one is refused. A slice that
has ended is reopened with more: interlock reopen ID --usd N.`,
		Example:           "  interlock raise my-slice --usd 25\n  interlock raise my-slice --usd 5 --role judge",
		Args:              oneID,
		ValidArgsFunction: a.completeWaiting,
		RunE: does(func(ctx context.Context, args []string) error {
			limit, err := slice.ParseUSD(usd)
			if usd == "" || err != nil {
				if err == nil || usd == "" {
					err = errors.New("a raise names the whole cap: --usd N")
				}
				return usage("%w", err)
			}
			x.CapMicroUSD = int64(limit)
			if x.By == "" {
				x.By = identity(ctx)
			}
			s, release, err := a.join(ctx)
			if err != nil {
				return err
			}
			defer release()
			out, err := a.send(ctx, s, message{slice: args[0], name: slice.RaiseBudget, payload: x,
				id: messageID(slice.RaiseBudget, args[0], x.Role, strconv.FormatInt(x.CapMicroUSD, 10))}, d)
			if err != nil {
				return err
			}
			return a.print(out, func(w io.Writer) {
				if out.Taken == nil {
					fmt.Fprintf(w, "it is with the server; interlock status %s%s shows the cap\n", args[0], a.here())
					return
				}
				of := "the slice"
				if x.Role != "" {
					of = "its " + x.Role
				}
				fmt.Fprintf(w, "%s: %s may cost %s\n", args[0], of, limit)
			})
		}),
	}
	f := c.Flags()
	f.StringVar(&usd, "usd", "", "what it may cost in all, in US dollars")
	f.StringVar(&x.Role, "role", "", "the role whose cap it is (default: the slice's own)")
	f.StringVar(&x.By, "by", "", "who raises (default: git's user, or this system's)")
	d.flags(f)
	_ = c.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{slice.RoleImplementer, slice.RoleJudge, slice.RoleAdvisor, slice.RoleReconciler}, cobra.ShellCompDirectiveNoFileComp))
	for _, flag := range []string{"usd", "by", "timeout"} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
	}
	return c
}
