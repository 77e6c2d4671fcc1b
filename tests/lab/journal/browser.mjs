// As much of Lumino's widgets as an OutputArea needs to keep its books, without a screen.
export class Widget {
  constructor() {
    this.parent = null;
    this.node = {
      style: {},
      appendChild: () => undefined,
      getBoundingClientRect: () => ({ height: 0 }),
      getElementsByTagName: () => [{ focus: () => undefined }]
    };
  }
  addClass() {}
  toggleClass() {}
  dispose() {
    if (this.home) {
      this.home.widgets.splice(this.home.widgets.indexOf(this), 1);
      this.home = null;
    }
  }
  get layout() {
    return this._layout;
  }
  set layout(value) {
    this._layout = value;
  }
}

export class PanelLayout {
  constructor() {
    this.widgets = [];
  }
  addWidget(widget) {
    this.insertWidget(this.widgets.length, widget);
  }
  insertWidget(index, widget) {
    widget.home = this;
    this.widgets.splice(index, 0, widget);
  }
}

export class Panel extends Widget {
  addWidget() {}
}

export class WidgetTracker {
  has() {
    return true;
  }
}

export const nullTranslator = { load: () => ({ __: text => text }) };
