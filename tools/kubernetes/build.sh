#!/usr/bin/env bash
# Builds the Kubernetes 1.20.2 servers from Debian's source package, for the tests that want a real cluster.
#
# Needs root (apt), 3 GB of disk while it builds, about nine minutes on two idle cores. What comes out (about 400 MB)
# lies in the user's cache folder and is built once:
#   $KUBE_CACHE/bin/{kube-apiserver,kube-controller-manager,kube-scheduler,kubelet,kube-proxy,pause}
# Several callers may run it at once: one builds, the others wait for it.
set -euo pipefail

KUBE_CACHE=${KUBE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pliant/kubernetes-1.20.2}
bin=$KUBE_CACHE/bin
work=$KUBE_CACHE/build
source_package='kubernetes_1.20.5+really1.20.2.orig.tar.gz'
patches=2 # the number of the set of patches below: servers of another set are built anew
source_sha256=b83c0780efb182d928dc63d46488a847f161f04e40a94b96bf5247dd671ecdfc

packages=(
  golang-go gcc libc6-dev                                             # to build
  etcd-server etcd-client containerd runc containernetworking-plugins # to run
  busybox-static iptables iproute2 conntrack curl openssl procps util-linux
)

say() { echo "kubernetes testbed: $*"; }

install_packages() {
  local missing=() name
  for name in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done
  command -v kubectl >/dev/null || missing+=(kubernetes-client)  # any version will do, also one from elsewhere
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${missing[*]}"
  apt-get update -q >/dev/null
  # etcd and containerd are run by the tests, in folders of their own; Debian must not start its own instances.
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
}

fetch_source() {
  [ -d "$tree" ] && return
  # The mirror is the one that apt is set up with, whichever it is.
  local mirror
  mirror=$(apt-get --print-uris download golang-github-modern-go-reflect2-dev | sed -nE "s#^'(.*)/pool/.*#\1#p")
  curl -fsS --retry 3 -o "$source_package" "$mirror/pool/main/k/kubernetes/$source_package"
  echo "$source_sha256  $source_package" | sha256sum -c --quiet -
  rm -rf kubernetes-1.20.2 && tar xzf "$source_package" && mv kubernetes-1.20.2 "$tree" && rm "$source_package"
}

patch_source() {
  # The vendored reflect2 1.0.1 crashes when built with Go 1.18 or later; Debian's 1.0.2 does not.
  local reflect2=$tree/vendor/github.com/modern-go/reflect2
  apt-get download -q golang-github-modern-go-reflect2-dev >/dev/null 2>&1
  rm -rf reflect2-deb && dpkg-deb -x golang-github-modern-go-reflect2-dev_*.deb reflect2-deb
  rm -f "$reflect2"/*.go "$reflect2"/*.s
  cp reflect2-deb/usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} "$reflect2/"
  # Upstream's kubernetes#96876: without it a lost node never got its NoExecute taint and kept its Pods for ever.
  sed -i 's/\.SetRemove(node\.Name)/.Remove(node.Name)/' "$tree/pkg/controller/nodelifecycle/node_lifecycle_controller.go"
  # For speed only: the kubelet finishes deleted Pods every second instead of every ten.
  sed -i 's/^const syncPeriod = 10 \* time.Second/const syncPeriod = 1 * time.Second/' "$tree/pkg/kubelet/status/status_manager.go"
  # With today's Go an empty string compares equal to reflect.Zero, and was refused in custom resources as if it were null.
  local validate
  for validate in github.com/go-openapi/validate k8s.io/kube-openapi/pkg/validation/validate; do
    sed -i 's/data == nil || reflect\.DeepEqual(reflect\.Zero(reflect\.TypeOf(data)), reflect\.ValueOf(data))/data == nil/' \
      "$tree/vendor/$validate/type.go"
    grep -q 'if data == nil {' "$tree/vendor/$validate/type.go"
  done
}

generate_openapi() {
  [ -f pkg/generated/openapi/zz_generated.openapi.go ] && return
  # No -trimpath here: it would blank runtime.GOROOT(), and the generator could not see package time.
  go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
  local inputs
  inputs=$(grep -rlE --include='*.go' '^// *\+k8s:openapi-gen=' pkg vendor/k8s.io/*/ \
    | grep -v '/code-generator/\|/sample-apiserver/\|_examples' | xargs -n1 dirname | LC_ALL=C sort -u \
    | sed 's#^#k8s.io/kubernetes/#' | paste -sd,)
  "$work/openapi-gen" --logtostderr -i "$inputs" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
    -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$work/violations.report"
}

build_servers() {
  local flags="-s -w" package server started
  for package in client-go/pkg component-base; do
    package=k8s.io/kubernetes/vendor/k8s.io/$package/version
    flags+=" -X $package.gitVersion=v1.20.2 -X $package.gitMajor=1 -X $package.gitMinor=20 -X $package.gitTreeState=clean"
    flags+=" -X $package.gitCommit=faecb196815e248d3ecfb03c680a4507229c2a56 -X $package.buildDate=2021-01-13T13:20:00Z"
  done
  for server in kube-apiserver kube-scheduler kube-controller-manager kubelet kube-proxy; do
    started=$SECONDS
    go build -trimpath -ldflags "$flags" -o "$bin/$server" "./cmd/$server"
    say "$server built in $((SECONDS - started)) s"
  done
  gcc -Os -static -DVERSION=3.2 -o "$bin/pause" build/pause/linux/pause.c && strip "$bin/pause"
}

mkdir -p "$bin" "$work/gopath/src/k8s.io"
exec 9>"$KUBE_CACHE/.lock"
flock 9
install_packages
[ "$(cat "$bin/.complete" 2>/dev/null)" = "$patches" ] && { say "ready in $KUBE_CACHE"; exit 0; }
say "building Kubernetes 1.20.2, once (about nine minutes on two idle cores)"
tree=$work/gopath/src/k8s.io/kubernetes
cd "$work"
fetch_source
patch_source
export GOPATH=$work/gopath GOCACHE=$work/gocache GO111MODULE=off GOPROXY=off CGO_ENABLED=0 GOFLAGS=
cd "$tree"
generate_openapi
build_servers
echo "$patches" >"$bin/.complete"
cd / && chmod -R u+w "$work" && rm -rf "$work"
say "built in $SECONDS s"
