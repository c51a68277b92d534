package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"interlock/machine"
)

// graph is the machine as a picture or a table.
type graph struct {
	Format string `json:"format"`
	Graph  string `json:"graph"`
}

func (a *app) graphCommand() *cobra.Command {
	format := "mermaid"
	c := &cobra.Command{
		Use:   "graph",
		Short: "The machine that every slice goes through, drawn from its table",
		Example: `  interlock graph > machine.mmd
  interlock graph --format dot | dot -Tsvg > machine.svg
  interlock graph --format table
  interlock graph --format endings`,
		Args: nothing,
		RunE: does(func(context.Context, []string) error {
			g := graph{Format: format}
			if format == "endings" {
				g.Graph = machine.EndingsTable()
			} else {
				var err error
				if g.Graph, err = machine.Graph(format); err != nil {
					return usage("--format: %w; or endings", err)
				}
			}
			return a.print(g, func(w io.Writer) { fmt.Fprint(w, g.Graph) })
		}),
	}
	c.Flags().StringVar(&format, "format", format, "mermaid, dot or table; or endings for the table of exit codes")
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"mermaid", "dot", "table", "endings"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}
