package engine

import (
	"context"
	"fmt"
	"os"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

// Source says where connection settings came from.
type Source string

// The sources, the strongest first.
const (
	SourceFlag        Source = "flag"        // the address given on the command line
	SourceEnvironment Source = "environment" // TEMPORAL_ADDRESS
	SourceProfile     Source = "profile"     // a profile of temporal.toml
	SourceHome        Source = "home"        // the server of the home, which answers
	SourceDefault     Source = "default"     // nothing named a server
)

// ClientOptions resolves which server to talk to, as every Temporal program
// does: the address flag, then TEMPORAL_ADDRESS, then the profile of
// temporal.toml, then the server recorded in the home if it answers, then
// localhost:7233. An empty address or namespace means that the flag was not
// given. Whatever else environment and profile set (namespace, key, TLS) holds
// for each of these but the home's own server, which has one namespace and no
// authentication.
//
// It connects to nothing but the home's server, so the options may be of a
// server that does not answer. An error means that the settings are wrong.
func ClientOptions(ctx context.Context, home, address, namespace string) (client.Options, Source, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return client.Options{}, "", fmt.Errorf("connection settings (TEMPORAL_* variables and temporal.toml): %w", err)
	}
	var source Source
	switch {
	case address != "":
		source = SourceFlag
		options.HostPort = address
	case options.HostPort != "" && os.Getenv("TEMPORAL_ADDRESS") != "":
		source = SourceEnvironment
	case options.HostPort != "":
		source = SourceProfile
	default:
		if server, ok := Find(ctx, home); ok {
			source = SourceHome
			options = client.Options{HostPort: server.Address, Namespace: server.Namespace}
		} else {
			source = SourceDefault
			options.HostPort = client.DefaultHostPort
		}
	}
	if namespace != "" {
		options.Namespace = namespace
	}
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	return options, source, nil
}
