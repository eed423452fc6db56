package main

import (
	"bytes"
	"log/slog"
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

// TestFindCgroupLimit: the lowest limit among the cgroup and its parents applies.
func TestFindCgroupLimit(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"container", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 512 << 20},
		{"systemd unit", map[string]string{
			"proc/self/cgroup":                                        "0::/system.slice/agenthost.service\n",
			"sys/fs/cgroup/system.slice/memory.max":                   "max\n",
			"sys/fs/cgroup/system.slice/agenthost.service/memory.max": "1073741824\n",
		}, 1 << 30},
		{"limit of the parent", map[string]string{
			"proc/self/cgroup":                              "1:name=systemd:/\n0::/pod/container\n",
			"sys/fs/cgroup/pod/memory.max":                  "268435456\n",
			"sys/fs/cgroup/pod/container/memory.max":        "536870912\n",
			"sys/fs/cgroup/pod/container/nested/memory.max": "1\n",
		}, 256 << 20},
		{"outside of the visible cgroups", map[string]string{"proc/self/cgroup": "0::/../other\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		{"cgroup v1", map[string]string{"proc/self/cgroup": "4:memory:/a\n"}, 0},
		{"no cgroups", nil, 0},
	}
	for _, tt := range tests {
		root := fstest.MapFS{}
		for name, text := range tt.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		got, ok := findCgroupLimit(root)
		if ok != (tt.want > 0) || ok && got != tt.want {
			t.Errorf("%s: findCgroupLimit() = %d, %v, want %d", tt.name, got, ok, tt.want)
		}
	}
}

// TestLimitMemoryFromEnvironment: GOMEMLIMIT overrides the cgroup's limit.
func TestLimitMemoryFromEnvironment(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	var log bytes.Buffer
	limitMemory(slog.New(slog.NewTextHandler(&log, nil)))
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 || log.Len() > 0 {
		t.Errorf("with GOMEMLIMIT the limit is %d, log %q; want no change", got, &log)
	}
}

// TestRelaxCollectorFromEnvironment: GOGC overrides the percentage that serve sets.
func TestRelaxCollectorFromEnvironment(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for _, tt := range []struct {
		environment string
		want        int
	}{{"50", 100}, {"", collectorPercent}} {
		t.Setenv("GOGC", tt.environment)
		relaxCollector()
		got := debug.SetGCPercent(100)
		if got != tt.want {
			t.Errorf("with GOGC=%q the percentage is %d, want %d", tt.environment, got, tt.want)
		}
	}
}
