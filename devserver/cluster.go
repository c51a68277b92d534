package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	loopback    = "127.0.0.1"
	clusterName = "active"
	store       = "sqlite"
)

// tuning is the dynamic configuration of a server with one user on one disk.
// The defaults pace every task queue for clusters of many: an activity would
// take 100 ms and a timer of 10 ms a second.
var tuning = map[string]any{
	"history.transferProcessorMaxPollRPS":            200,
	"history.visibilityProcessorMaxPollRPS":          200,
	"history.timerProcessorMaxPollRPS":               2000,
	"history.timerProcessorMaxTimeShift":             10 * time.Millisecond,
	"history.persistenceMaxQPS":                      45000,
	"history.hostLevelCacheMaxSize":                  8096,
	"frontend.persistenceMaxQPS":                     10000,
	"frontend.namespaceRPS.visibility":               100,
	"frontend.enableServerVersionCheck":              false, // asks a host on the internet
	"matching.numTaskqueueReadPartitions":            1,
	"matching.numTaskqueueWritePartitions":           1,
	"system.enableActivityEagerExecution":            true,
	"system.forceSearchAttributesCacheRefreshOnRead": true,
	"system.namespaceCacheRefreshInterval":           time.Second,
}

// runningCluster is a started server with its Web UI.
type runningCluster struct {
	server    temporal.Server
	ui        *uiserver.Server // nil if headless
	address   string
	uiAddress string
}

func startCluster(o *options, db *database) (*runningCluster, error) {
	c := &runningCluster{address: hostPort(reachable(o.ip), o.port)}
	conf, err := serverConfig(o, db, c.address)
	if err != nil {
		return nil, err
	}
	logger := log.NewZapLogger(log.BuildZapLogger(logConfig(o)))
	authorizer, err := authorization.GetAuthorizerFromConfig(&conf.Global.Authorization)
	if err != nil {
		return nil, err
	}
	claims, err := authorization.GetClaimMapperFromConfig(&conf.Global.Authorization, logger)
	if err != nil {
		return nil, err
	}
	dynamic := dynamicconfig.StaticClient{}
	values := maps.Clone(tuning)
	maps.Copy(values, o.dynamicConfig)
	for key, value := range values {
		dynamic[dynamicconfig.MakeKey(key)] = value
	}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for name, service := range conf.Services {
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(hostPort(reachable(service.RPC.BindOnIP), service.RPC.GRPCPort))
	}
	c.server, err = temporal.NewServer(
		temporal.WithConfig(conf),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorizer),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return claims }),
		temporal.WithDynamicConfigClient(dynamic),
	)
	if err != nil {
		return nil, err
	}
	if err := c.server.Start(); err != nil {
		return nil, err
	}
	if !o.headless {
		c.uiAddress = hostPort(reachable(o.uiIP), o.uiPort)
		host := o.uiIP
		if net.ParseIP(host).To4() == nil {
			host = "[" + host + "]"
		}
		c.ui = uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
			Host:                host,
			Port:                o.uiPort,
			TemporalGRPCAddress: c.address,
			DefaultNamespace:    o.namespaces[0],
			EnableUI:            true,
			CORS:                uiconfig.CORS{CookieInsecure: true},
			HideLogs:            true,
			DisableNewsFetch:    true,
		}))
		// Start ends the process itself if the port is taken.
		go func() { _ = c.ui.Start() }()
	}
	return c, nil
}

// stop ends the server gracefully, within stopTimeout.
func (c *runningCluster) stop() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c.ui != nil {
			c.ui.Stop()
		}
		_ = c.server.Stop()
	}()
	select {
	case <-done:
	case <-time.After(stopTimeout):
	}
}

// waitReady returns once frontend and Web UI answer.
func (c *runningCluster) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	frontend := workflowservice.NewWorkflowServiceClient(conn)
	err = poll(ctx, func() error {
		_, err := frontend.GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
		return err
	})
	if err != nil {
		return fmt.Errorf("the frontend at %s does not answer: %w", c.address, err)
	}
	if c.ui == nil {
		return nil
	}
	var dialer net.Dialer
	err = poll(ctx, func() error {
		conn, err := dialer.DialContext(ctx, "tcp", c.uiAddress)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the Web UI at %s does not answer: %w", c.uiAddress, err)
	}
	return nil
}

// poll repeats try until it succeeds; its last error, joined with that of ctx,
// when ctx ends first.
func poll(ctx context.Context, try func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

func serverConfig(o *options, db *database, address string) (*config.Config, error) {
	var conf config.Config
	conf.Global.Membership.MaxJoinDuration = 30 * time.Second
	conf.Global.Membership.BroadcastAddress = loopback
	if o.metricsPort > 0 {
		conf.Global.Metrics = &metrics.Config{Prometheus: &metrics.PrometheusConfig{
			ListenAddress: hostPort(o.ip, o.metricsPort),
			HandlerPath:   "/metrics",
		}}
	}
	conf.Persistence = config.Persistence{
		DefaultStore:     store,
		VisibilityStore:  store,
		NumHistoryShards: 1,
		DataStores:       map[string]config.DataStore{store: {SQL: &db.config}},
	}
	conf.ClusterMetadata = &cluster.Config{
		FailoverVersionIncrement: 10,
		MasterClusterName:        clusterName,
		CurrentClusterName:       clusterName,
		ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
			Enabled:                true,
			InitialFailoverVersion: 1,
			RPCAddress:             address,
			ClusterID:              db.clusterID,
		}},
	}
	conf.DCRedirectionPolicy.Policy = "noop"
	conf.Archival.History.State = "disabled"
	conf.Archival.Visibility.State = "disabled"
	conf.NamespaceDefaults.Archival.History.State = "disabled"
	conf.NamespaceDefaults.Archival.Visibility.State = "disabled"
	conf.PublicClient.HostPort = address

	conf.Services = map[string]config.Service{}
	for _, name := range temporal.DefaultServices {
		var service config.Service
		if name == string(primitives.FrontendService) {
			service.RPC = config.RPC{BindOnIP: o.ip, GRPCPort: o.port, HTTPPort: o.httpPort}
		} else {
			port, err := freePort(loopback)
			if err != nil {
				return nil, err
			}
			service.RPC = config.RPC{BindOnIP: loopback, GRPCPort: port}
		}
		conf.Services[name] = service
	}
	return &conf, nil
}

func logConfig(o *options) log.Config {
	conf := log.Config{Level: o.logLevel, Format: "console"}
	if o.logLevel == "never" {
		conf.Level = "fatal"
	}
	if o.logFormat == "json" {
		conf.Format = "json"
	}
	return conf
}

// freePort finds a port below the range from which Linux and macOS take the
// local ports of outgoing connections. There, a client that tries to reconnect
// to a server that died would sooner or later be given the server's own port,
// connect to itself, and keep the port from the server's successor.
func freePort(ip string) (int, error) {
	const lowest, highest = 20000, 32767
	var err error
	for range 100 {
		port := lowest + rand.IntN(highest-lowest+1)
		var listener net.Listener
		if listener, err = net.Listen("tcp", hostPort(ip, port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d: %w", lowest, highest, err)
}

// reachable is the address under which this machine reaches a listener on ip.
func reachable(ip string) string {
	switch parsed := net.ParseIP(ip); {
	case !parsed.IsUnspecified():
		return ip
	case parsed.To4() == nil:
		return "::1"
	default:
		return loopback
	}
}

func hostPort(ip string, port int) string {
	return net.JoinHostPort(ip, strconv.Itoa(port))
}
