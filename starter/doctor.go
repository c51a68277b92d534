package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/sys/unix"

	"interlock/activities/evidence"
	"interlock/activities/git"
	"interlock/activities/process"
	"interlock/activities/sandbox"
	"interlock/engine"
	"interlock/slice"
	"interlock/spec"
)

// health is what a probe thinks.
type health string

const (
	fine   health = "ok"
	doubt  health = "warn"
	broken health = "fail"
)

// finding is what one probe found, and how to mend it.
type finding struct {
	Probe string `json:"probe"`
	State health `json:"state"`
	Found string `json:"found"`
	Mend  string `json:"mend,omitempty"`
}

// diagnosis is what `doctor` tells.
type diagnosis struct {
	OK       bool      `json:"ok"`
	Findings []finding `json:"findings"`
}

// doctor looks whether this host can work on slices.
type doctor struct {
	app *app
	fix bool
	// What it asks the system.
	space     func(dir string) (free uint64, err error)
	guarantee func() (complete bool, why string)
	// sandboxes are commands that succeed where that sandbox works, by name.
	sandboxes map[string]slice.Argv
}

func (a *app) doctorCommand() *cobra.Command {
	fix := false
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Whether this host can work on slices, and how to mend what is missing",
		Long: `Doctor looks at git, the Temporal server with its namespace and search attributes,
disk space, the home, the agents of the policy here, and what this system can
keep apart. It exits with 8 if something must be mended. With --fix it registers
the search attributes that are missing.`,
		Args: nothing,
		RunE: does(func(ctx context.Context, _ []string) error {
			d := doctor{
				app: a, fix: fix, space: spaceFree, guarantee: process.Guarantee,
				sandboxes: map[string]slice.Argv{
					"bubblewrap":      {"bwrap", "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "--", "true"},
					"user namespaces": {"unshare", "--user", "--pid", "--fork", "--", "true"},
				},
			}
			v := d.examine(ctx)
			if err := a.print(v, func(w io.Writer) { a.writeDiagnosis(w, v) }); err != nil {
				return err
			}
			if !v.OK {
				return code(exitPrecondition)
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&fix, "fix", false, "register the search attributes that are missing")
	return c
}

// examine runs every probe.
func (d *doctor) examine(ctx context.Context) diagnosis {
	v := diagnosis{OK: true, Findings: []finding{}}
	add := func(all ...finding) {
		for _, f := range all {
			v.OK = v.OK && f.State != broken
			v.Findings = append(v.Findings, f)
		}
	}
	policy, found := d.policy(ctx)
	add(d.git(ctx))
	add(d.server(ctx, policy)...)
	add(d.home(), d.disk(), d.evidence(), found)
	add(d.agents(policy)...)
	add(d.sandbox(ctx), d.processes())
	return v
}

func (d *doctor) git(ctx context.Context) finding {
	f := finding{Probe: "git", State: broken, Mend: "install git " + git.Floor + " or newer, and put it first on the PATH"}
	if err := git.Require(ctx); err != nil {
		f.Found = plain(err.Error())
		return f
	}
	version, err := git.Client{}.Line(ctx, "version")
	if err != nil {
		f.Found = plain(err.Error())
		return f
	}
	return finding{Probe: "git", State: fine, Found: strings.TrimPrefix(version, "git version ")}
}

// server looks at the server and, if it answers, at all that it must have.
func (d *doctor) server(ctx context.Context, policy *slice.Policy) []finding {
	a := d.app
	f := finding{Probe: "server"}
	o, source, err := a.connection.options(ctx, a.home)
	if err != nil {
		f.State, f.Found, f.Mend = broken, plain(err.Error()), "look at the TEMPORAL_* variables and temporal.toml"
		return []finding{f}
	}
	s, err := a.connect(ctx)
	if err != nil {
		f.State, f.Found, f.Mend = broken, plain(err.Error()), mendOf(err)
		if source == engine.SourceDefault {
			f.State, f.Found = doubt, "no server is named, and the home's own does not run"
			f.Mend = "interlock run starts the home's own; to look at it now: interlock server" + a.homeFlag()
		}
		return []finding{f}
	}
	defer s.Close()
	f.State, f.Found = fine, fmt.Sprintf("%s answers (%s)", s.address, from(source))
	namespace, ok := d.namespace(ctx, s)
	if !ok {
		return []finding{f, namespace}
	}
	return []finding{f, namespace, d.attributes(ctx, s), reach(o, policy)}
}

func mendOf(err error) string {
	var f *failure
	if errors.As(err, &f) {
		return f.do
	}
	return ""
}

// leastRetention is how long ended slices should be known: without them an id
// may be used twice, and nobody can look at what ended over a weekend.
const leastRetention = 7 * 24 * time.Hour

// namespace looks at the namespace's retention; ok is false if it is not there.
func (d *doctor) namespace(ctx context.Context, s *session) (f finding, ok bool) {
	f = finding{Probe: "retention", State: broken}
	got, err := s.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.namespace})
	var none *serviceerror.NamespaceNotFound
	switch {
	case errors.As(err, &none):
		f.Found, f.Mend = fmt.Sprintf("the server has no namespace %q", s.namespace), "temporal operator namespace create --namespace "+s.namespace+" --retention 30d"
		return f, false
	case err != nil:
		f.State, f.Found, f.Mend = doubt, "the namespace cannot be looked at: "+plain(err.Error()), "ask whoever runs the server for the right to describe it"
		return f, true
	}
	kept := got.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	f.State, f.Found = fine, fmt.Sprintf("namespace %s keeps ended slices for %s", s.namespace, took(kept))
	if kept < leastRetention {
		f.State = doubt
		f.Mend = "temporal operator namespace update --namespace " + s.namespace + " --retention 30d"
	}
	return f, true
}

// attributes looks for the search attributes, and registers those that are
// missing if it may.
func (d *doctor) attributes(ctx context.Context, s *session) finding {
	f := finding{Probe: "attributes", State: broken, Mend: "interlock doctor --fix" + d.app.here() + ", or: " + registration(s.namespace)}
	missing, wrong, err := lacking(ctx, s)
	if err == nil && wrong == "" && len(missing) > 0 && d.fix {
		_, err = s.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: s.namespace, SearchAttributes: missing})
		if err == nil {
			missing, wrong, err = lacking(ctx, s)
		}
	}
	switch {
	case err != nil:
		f.Found = plain(err.Error())
	case wrong != "":
		f.Found, f.Mend = wrong, "use another namespace: the type of an attribute cannot be changed"
	case len(missing) > 0:
		f.Found = fmt.Sprintf("namespace %s lacks %s: a worker refuses to start", s.namespace, strings.Join(slices.Sorted(maps.Keys(missing)), " "))
	default:
		return finding{Probe: "attributes", State: fine, Found: "all are registered"}
	}
	return f
}

// lacking lists the search attributes that a namespace has not, or says which
// one has another type.
func lacking(ctx context.Context, s *session) (missing map[string]enumspb.IndexedValueType, wrong string, err error) {
	got, err := s.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: s.namespace})
	if err != nil {
		return nil, "", err
	}
	missing = map[string]enumspb.IndexedValueType{}
	for _, name := range sortedKeys(slice.Attributes()) {
		want, err := enumspb.IndexedValueTypeFromString(slice.Attributes()[name])
		if err != nil {
			return nil, "", err
		}
		have, ok := got.GetCustomAttributes()[name]
		switch {
		case !ok:
			missing[name] = want
		case have != want:
			return nil, fmt.Sprintf("attribute %s has type %s, not %s", name, have, want), nil
		}
	}
	return missing, "", nil
}

// reach says what an agent could do at the server.
func reach(o client.Options, policy *slice.Policy) finding {
	f := finding{Probe: "approvals"}
	host, _, err := net.SplitHostPort(o.HostPort)
	near := err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
	where := "the server " + o.HostPort
	if near {
		where = "the server of this host, " + o.HostPort
	}
	tls := o.ConnectionOptions.TLS
	if o.Credentials == nil && (tls == nil || len(tls.Certificates) == 0 && tls.GetClientCertificate == nil) {
		f.State = doubt
		f.Found = "agents and checks have this host's network, and " + where + " asks for no credentials: one that is hostile could approve a gate in somebody's name"
		f.Mend = "where that matters, use a server that asks for an API key or a client certificate; who approved what is in interlock ledger ID"
		return f
	}
	if policy != nil {
		for _, name := range policy.Env {
			if strings.HasPrefix(name, "TEMPORAL_") {
				f.State, f.Found, f.Mend = broken, fmt.Sprintf("policy lets agents and checks see %s, with which they could approve a gate", name), "take it out of env in "+slice.PolicyFile
				return f
			}
		}
	}
	f.State, f.Found = fine, where+" asks for credentials, which agents and checks are not given"
	return f
}

// home looks at who may read and write the home.
func (d *doctor) home() finding {
	home := d.app.home
	f := finding{Probe: "home", State: broken}
	info, err := os.Stat(home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		above := existing(home)
		if unix.Access(above, unix.W_OK) != nil {
			f.Found, f.Mend = fmt.Sprintf("%s is not there, and cannot be made in %s", home, above), "name another one with --home or INTERLOCK_HOME"
			return f
		}
		return finding{Probe: "home", State: fine, Found: home + " is made when it is first needed"}
	case err != nil:
		f.Found, f.Mend = plain(err.Error()), "name another one with --home or INTERLOCK_HOME"
	case !info.IsDir():
		f.Found, f.Mend = home+" is no folder", "name another one with --home or INTERLOCK_HOME"
	case info.Mode().Perm()&0o077 != 0:
		f.Found = fmt.Sprintf("%s can be used by others (%s): it holds stores, evidence and the tokens of running steps", home, info.Mode().Perm())
		f.Mend = "chmod 700 " + slice.Argv{home}.String()
	case unix.Access(home, unix.W_OK) != nil:
		f.Found, f.Mend = home+" cannot be written", "make it yours, or name another one with --home"
	default:
		return finding{Probe: "home", State: fine, Found: home}
	}
	return f
}

// existing is the nearest folder above path that is there.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// Disk space in the home, in bytes: less is broken, or doubtful.
const (
	leastSpace  = 512 << 20
	enoughSpace = 5 << 30
)

func spaceFree(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}

func (d *doctor) disk() finding {
	f := finding{Probe: "disk", State: fine}
	free, err := d.space(existing(d.app.home))
	if err != nil {
		f.State, f.Found, f.Mend = broken, plain(err.Error()), "name another home with --home"
		return f
	}
	f.Found = fmt.Sprintf("%.1f GiB are free", float64(free)/(1<<30))
	switch {
	case free < leastSpace:
		f.State = broken
	case free < enoughSpace:
		f.State = doubt
	}
	if f.State != fine {
		f.Mend = "make room, or move the home to a bigger disk: each slice needs a few checkouts of its repository"
	}
	return f
}

// sampled is how much evidence is read again, in files.
const sampled = 50

// evidence looks whether what was kept still has its hash, and more can be kept.
func (d *doctor) evidence() finding {
	dir := filepath.Join(d.app.home, "evidence")
	f := finding{Probe: "evidence", State: broken, Mend: "look at the disk and the rights of " + dir}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return finding{Probe: "evidence", State: fine, Found: "none is kept yet"}
	}
	store, err := evidence.Open(dir)
	if err != nil {
		f.Found = plain(err.Error())
		return f
	}
	if unix.Access(dir, unix.W_OK) != nil {
		f.Found = dir + " cannot be written"
		return f
	}
	files, err := filepath.Glob(filepath.Join(dir, "[0-9a-f][0-9a-f]", "*"))
	if err != nil {
		f.Found = plain(err.Error())
		return f
	}
	step := max(1, len(files)/sampled)
	read := 0
	for i := 0; i < len(files); i += step {
		if _, err := store.Get(filepath.Base(files[i])); err != nil {
			f.Found = plain(err.Error())
			return f
		}
		read++
	}
	return finding{Probe: "evidence", State: fine, Found: fmt.Sprintf("%s kept; %d were read and have their hash", count(len(files), "file"), read)}
}

// policy reads the policy of the repository here, as it stands.
func (d *doctor) policy(ctx context.Context) (*slice.Policy, finding) {
	f := finding{Probe: "policy", State: fine}
	root, err := repositoryHere(ctx)
	if err != nil {
		f.Found = "there is no repository here"
		return nil, f
	}
	data, err := os.ReadFile(filepath.Join(root, slice.PolicyFile))
	if errors.Is(err, fs.ErrNotExist) {
		f.State, f.Found, f.Mend = doubt, "the repository here has no "+slice.PolicyFile, "interlock init writes one"
		return nil, f
	}
	if err != nil {
		f.State, f.Found, f.Mend = broken, plain(err.Error()), "make it readable"
		return nil, f
	}
	p, err := spec.ParsePolicy(slice.PolicyFile, data)
	if err != nil {
		f.State, f.Found, f.Mend = broken, plain(err.Error()), "interlock validate "+slice.PolicyFile
		return nil, f
	}
	f.Found = filepath.Join(root, slice.PolicyFile)
	return &p, f
}

var word = regexp.MustCompile(`^[A-Za-z0-9_./+-]+$`)

// agents looks for the programs of a policy's agents.
func (d *doctor) agents(policy *slice.Policy) (all []finding) {
	if policy == nil {
		return nil
	}
	for _, a := range agents(*policy) {
		name := a.Role
		if a.Name != "" && a.Name != a.Role {
			name += " " + a.Name
		}
		f := finding{Probe: "agent", State: fine}
		if a.Use == slice.AdapterExternal {
			f.Found = name + " is driven from outside: interlock next, interlock report"
			all = append(all, f)
			continue
		}
		program := a.Run[0]
		if line, ok := shellLine(a.Run); ok {
			program = strings.Fields(line + " sh")[0]
		}
		if !word.MatchString(program) {
			continue // a shell's own business
		}
		path, err := exec.LookPath(program)
		if err != nil {
			f.State, f.Found = broken, fmt.Sprintf("%s: %s is not on the PATH", name, program)
			f.Mend = "install it, or name it by its absolute path in " + slice.PolicyFile
		} else {
			f.Found = name + ": " + path
		}
		all = append(all, f)
	}
	return all
}

// sandbox runs a program in each sandbox: whether one is installed says little.
func (d *doctor) sandbox(ctx context.Context) finding {
	var works, fails []string
	for _, name := range sortedKeys(d.sandboxes) {
		argv := d.sandboxes[name]
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		out, err := exec.CommandContext(try, argv[0], argv[1:]...).CombinedOutput()
		cancel()
		if err == nil {
			works = append(works, name)
			continue
		}
		why := err.Error()
		if text := plain(string(out)); text != "" {
			why = text
		}
		fails = append(fails, fmt.Sprintf("%s (%s)", name, clip(why, 100)))
	}
	f := finding{Probe: "sandbox", State: fine, Found: strings.Join(works, " and ") + " work here"}
	if len(works) == 1 {
		f.Found = works[0] + " works here"
	}
	if len(fails) > 0 {
		f.State = doubt
		if len(works) > 0 {
			f.Found += "; not: " + strings.Join(fails, ", ")
		} else {
			f.Found = "agents and checks cannot be kept apart from this host; not: " + strings.Join(fails, ", ") + "; " + sandbox.Without
		}
		f.Mend = "install bubblewrap and allow unprivileged user namespaces (Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0; Docker: a seccomp profile that allows them)"
	}
	return f
}

// processes says whether nothing that agents start can outlive them.
func (d *doctor) processes() finding {
	complete, why := d.guarantee()
	f := finding{Probe: "processes", State: fine, Found: why}
	if !complete {
		f.State, f.Mend = doubt, "run the worker on Linux, with /proc mounted"
	}
	return f
}

func (a *app) writeDiagnosis(w io.Writer, v diagnosis) {
	for _, f := range v.Findings {
		state := pad(string(f.State), 4)
		switch f.State {
		case fine:
			state = a.out.green(state)
		case doubt:
			state = a.out.yellow(state)
		case broken:
			state = a.out.red(state)
		}
		fmt.Fprintf(w, "%s  %s %s\n", state, pad(f.Probe, 11), f.Found)
		if f.Mend != "" {
			fmt.Fprintf(w, "      %s %s\n", pad("", 11), a.out.dim("→ "+f.Mend))
		}
	}
}
