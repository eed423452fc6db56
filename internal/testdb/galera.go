package testdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// galeraLibrary is the library that makes a MariaDB server a node of a Galera cluster (Debian's package galera-4).
const galeraLibrary = "/usr/lib/galera/libgalera_smm.so"

// A Galera is a cluster of MariaDB servers on this machine, in which each node accepts writes.
type Galera struct {
	nodes []*galeraNode
	wg    sync.WaitGroup
}

type galeraNode struct {
	dir   string
	ports galeraPorts
	cmd   *exec.Cmd
	ended chan struct{}
}

// galeraPorts are the ports for clients, the group, its incremental transfers and its whole ones.
type galeraPorts struct{ client, group, increment, transfer int }

// StartGalera starts a cluster in a folder that other users may enter: MariaDB's transfers do not run as root. It returns
// ErrAbsent if the machine has no MariaDB server with Galera.
func StartGalera(ctx context.Context, dir string, nodes int) (g *Galera, err error) {
	if _, err := os.Stat(galeraLibrary); err != nil {
		return nil, fmt.Errorf("%w: %s is missing", ErrAbsent, galeraLibrary)
	}
	for _, program := range []string{"mariadbd", "mariadb-install-db", "rsync"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrAbsent, err)
		}
	}
	g = &Galera{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Stop())
		}
	}()
	group := "gcomm://"
	for i := range nodes {
		var n *galeraNode
		for attempt := range startAttempts { // another process may take a port before the node does
			n = &galeraNode{dir: filepath.Join(dir, fmt.Sprintf("node%d-%d", i, attempt)), ended: make(chan struct{})}
			if err = g.startNode(ctx, n, group); err == nil || ctx.Err() != nil {
				break
			}
		}
		if err != nil {
			return g, err
		}
		g.nodes = append(g.nodes, n)
		if i == 0 {
			group += "127.0.0.1:" + strconv.Itoa(n.ports.group)
		}
	}
	return g, nil
}

// startAttempts is how often a node is started.
const startAttempts = 3

// findGaleraPorts returns free ports.
func findGaleraPorts() (p galeraPorts, err error) {
	for _, port := range []*int{&p.client, &p.group, &p.increment, &p.transfer} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return p, err
		}
		defer l.Close()
		*port = l.Addr().(*net.TCPAddr).Port
	}
	return p, nil
}

// startNode starts a node and waits until it is ready. After an error it has ended.
func (g *Galera) startNode(ctx context.Context, n *galeraNode, group string) error {
	owner, err := prepareOwner(n.dir)
	if err != nil {
		return err
	}
	install := exec.CommandContext(ctx, "mariadb-install-db", "--no-defaults", "--user="+owner, "--datadir="+n.dir, "--auth-root-authentication-method=normal", "--skip-test-db")
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("creating a node's tables: %w: %s", err, out)
	}
	log, err := os.Create(filepath.Join(n.dir, "log"))
	if err != nil {
		return err
	}
	if n.ports, err = findGaleraPorts(); err != nil {
		return errors.Join(err, log.Close())
	}
	p := n.ports
	n.cmd = exec.Command("mariadbd", "--no-defaults", "--user="+owner, "--datadir="+n.dir, "--socket="+filepath.Join(n.dir, "s"), "--pid-file="+filepath.Join(n.dir, "pid"),
		"--bind-address=127.0.0.1", "--port="+strconv.Itoa(p.client), "--max-connections=300",
		"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=64M",
		"--wsrep-on=ON", "--wsrep-provider="+galeraLibrary, "--wsrep-cluster-address="+group, "--wsrep-cluster-name=test",
		"--wsrep-node-address=127.0.0.1", "--wsrep-node-name="+filepath.Base(n.dir), "--wsrep-sst-method=rsync", "--wsrep-sst-receive-address=127.0.0.1:"+strconv.Itoa(p.transfer),
		fmt.Sprintf("--wsrep-provider-options=base_port=%d;gmcast.listen_addr=tcp://127.0.0.1:%[1]d;ist.recv_addr=127.0.0.1:%d;gcache.size=16M", p.group, p.increment))
	n.cmd.Stdout, n.cmd.Stderr = log, log
	err = n.cmd.Start()
	log.Close()
	if err != nil {
		return err
	}
	g.wg.Go(func() {
		defer close(n.ended)
		n.cmd.Wait() // killNode ends it
	})
	if err := n.waitReady(ctx); err != nil {
		return errors.Join(err, n.killNode())
	}
	return nil
}

// prepareOwner creates a folder and returns the user who runs a node: the current one, or as root, mysql.
func prepareOwner(dir string) (name string, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	current, err := user.Current()
	if err != nil || os.Geteuid() != 0 {
		return current.Username, err
	}
	owner, err := user.Lookup("mysql")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	uid, err := strconv.Atoi(owner.Uid)
	if err != nil {
		return "", err
	}
	gid, err := strconv.Atoi(owner.Gid)
	if err != nil {
		return "", err
	}
	return owner.Username, os.Chown(dir, uid, gid)
}

// waitReady waits until the node has the cluster's data.
func (n *galeraNode) waitReady(ctx context.Context) error {
	db, err := Open(n.databaseURL("mysql"))
	if err != nil {
		return err
	}
	defer db.Close()
	for {
		var name, value string
		err := db.QueryRowContext(ctx, "SHOW STATUS LIKE 'wsrep_ready'").Scan(&name, &value)
		if err == nil && value == "ON" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for a node: %w", errors.Join(ctx.Err(), err))
		case <-n.ended:
			text, _ := os.ReadFile(filepath.Join(n.dir, "log"))
			return fmt.Errorf("a node ended: %s", text[max(0, len(text)-2000):])
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (n *galeraNode) databaseURL(database string) string {
	return fmt.Sprintf("mysql://root@127.0.0.1:%d/%s", n.ports.client, database)
}

// URL returns the URL of a node's database.
func (g *Galera) URL(node int, database string) string { return g.nodes[node].databaseURL(database) }

// Kill ends a node with SIGKILL.
func (g *Galera) Kill(node int) error { return g.nodes[node].killNode() }

func (n *galeraNode) killNode() error {
	err := n.cmd.Process.Kill()
	<-n.ended
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Stop ends all nodes.
func (g *Galera) Stop() error {
	var errs []error
	for _, n := range g.nodes {
		errs = append(errs, n.killNode())
	}
	g.wg.Wait()
	return errors.Join(errs...)
}

// A RoundRobin is a proxy that connects its clients to one node after the other, and leaves out nodes that refuse.
type RoundRobin struct {
	listener net.Listener
	targets  []string
	next     atomic.Int64
	wg       sync.WaitGroup
}

// NewRoundRobin starts a proxy to all nodes.
func (g *Galera) NewRoundRobin() (*RoundRobin, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &RoundRobin{listener: l}
	for _, n := range g.nodes {
		r.targets = append(r.targets, "127.0.0.1:"+strconv.Itoa(n.ports.client))
	}
	r.wg.Go(r.acceptClients)
	return r, nil
}

// URL returns the URL of a database at the proxy.
func (r *RoundRobin) URL(database string) string {
	return "mysql://root@" + r.listener.Addr().String() + "/" + database
}

// Close ends the proxy when its clients have left.
func (r *RoundRobin) Close() error {
	err := r.listener.Close()
	r.wg.Wait()
	return err
}

func (r *RoundRobin) acceptClients() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() { r.serveClient(client) })
	}
}

func (r *RoundRobin) serveClient(client net.Conn) {
	defer client.Close()
	for range r.targets {
		at := r.targets[int(r.next.Add(1))%len(r.targets)]
		node, err := net.Dial("tcp", at)
		if err != nil {
			continue
		}
		defer node.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			io.Copy(node, client)
			node.Close()
		}()
		io.Copy(client, node)
		client.Close()
		<-done
		return
	}
}
