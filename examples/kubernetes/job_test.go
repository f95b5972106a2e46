// Package kubernetes tests the manifest with the types of the Kubernetes API. It is a module
// of its own, so that ipcbench does not depend on them.
package kubernetes

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// decode decodes a manifest as the API server does with fieldValidation=Strict.
func decode(manifest []byte) (objects []runtime.Object, err error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(core.AddToScheme(scheme), batch.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestJob: the manifest has no unknown field, and its parts agree with each other and with
// the user of the image.
func TestJob(t *testing.T) {
	objects, err := decode(read(t, "job.yaml"))
	if err != nil || len(objects) != 2 {
		t.Fatalf("%d objects, want 2: %v", len(objects), err)
	}
	service, job := objects[0].(*core.Service), objects[1].(*batch.Job)
	pod := job.Spec.Template.Spec
	env := map[string]string{}
	for _, v := range pod.Containers[0].Env {
		env[v.Name] = v.Value
	}
	user := regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`).FindStringSubmatch(string(read(t, "../../Containerfile")))
	if user == nil {
		t.Fatal("the Containerfile names no numeric user")
	}
	for _, same := range []struct{ what, got, want string }{
		{"selector", service.Spec.Selector[batch.JobNameLabel], job.Name},
		{"subdomain", pod.Subdomain, service.Name},
		{"parallelism", strconv.Itoa(int(*job.Spec.Parallelism)), strconv.Itoa(int(*job.Spec.Completions))},
		{"IPCBENCH_WORLD", env["IPCBENCH_WORLD"], strconv.Itoa(int(*job.Spec.Completions))},
		{"IPCBENCH_ADDR", env["IPCBENCH_ADDR"], job.Name + "-0." + service.Name + ":7117"},
		{"runAsUser", strconv.FormatInt(*pod.SecurityContext.RunAsUser, 10), user[1]},
		{"runAsGroup", strconv.FormatInt(*pod.SecurityContext.RunAsGroup, 10), user[2]},
	} {
		if same.got != same.want {
			t.Errorf("%s is %q, want %q", same.what, same.got, same.want)
		}
	}
}

// TestStrict: decode rejects a misspelt field, a field at a wrong level, a duplicate and an
// unknown kind.
func TestStrict(t *testing.T) {
	manifest := string(read(t, "job.yaml"))
	for _, broken := range []struct{ old, now, says string }{
		{"completionMode:", "completionsMode:", `unknown field "spec.completionsMode"`},
		{"allowPrivilegeEscalation: false", "fsGroup: 1", "containers[0].securityContext.fsGroup"}, // it belongs to the pod
		{"  backoffLimit: 0", "  backoffLimit: 0\n  backoffLimit: 1", "already set"},
		{"completions: 3", "completions: three", "cannot unmarshal"},
		{"kind: Job", "kind: Jobs", `no kind "Jobs"`},
	} {
		text := strings.Replace(manifest, broken.old, broken.now, 1)
		if _, err := decode([]byte(text)); text == manifest || err == nil || !strings.Contains(err.Error(), broken.says) {
			t.Errorf("%s: error %v, want one that contains %q", broken.now, err, broken.says)
		}
	}
}
