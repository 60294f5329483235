// Opened from disk, a page may start no worker: the search then runs in a hidden frame.
// The theme looks for this name, that of a package with the same methods.
window.IFrameWorker = class extends EventTarget {
  constructor(url) {
    super()
    const frame = document.body.appendChild(Object.assign(document.createElement("iframe"), {hidden: true}))
    this.inside = frame.contentWindow
    addEventListener("message", ({source, data}) => {
      if (source === this.inside) this.dispatchEvent(new MessageEvent("message", {data}))
    })
    this.ready = new Promise((done) => addEventListener("frame-ready", done, {once: true}))
    this.inside.document.open()
    this.inside.document.write(`<body><script>
      postMessage = (data) => parent.postMessage(data, "*")
      const load = (path) => new Promise((done) =>
        document.body.append(Object.assign(document.createElement("script"), {src: path, onload: done})))
      importScripts = (...paths) => paths.reduce((ready, path) => ready.then(() => load(path)), Promise.resolve())
      load("${url}").then(() => parent.dispatchEvent(new Event("frame-ready")))
    </script></body>`)
    this.inside.document.close()
  }
  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data: structuredClone(data)})))
  }
}
if (location.protocol === "file:") window.Worker = window.IFrameWorker
